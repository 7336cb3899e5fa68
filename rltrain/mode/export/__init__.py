"""mode=export: networks as ONNX."""
