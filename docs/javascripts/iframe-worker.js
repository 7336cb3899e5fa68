// Browsers start no worker for pages opened from a folder: there the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.window = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.window) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
      const page = this.window.document;
      page.open();
      page.write("<script>postMessage = (data) => parent.postMessage(data, \"*\")</script>");
      this.loaded = new Promise((resolve) => {
        const script = page.createElement("script");
        script.src = url;
        script.onload = resolve;
        page.head.append(script);
      });
      page.close();
    }
    postMessage(data) {
      this.loaded.then(() => window.postMessage.call(this.window, data, "*"));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
