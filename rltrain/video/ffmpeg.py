"""MP4 videos, written by ffmpeg."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from rltrain.common.machine.install import install_extra


def find_ffmpeg() -> str | None:
    """The ffmpeg on the path, or the one that comes with the package imageio-ffmpeg."""
    if installed := shutil.which("ffmpeg"):
        return installed
    try:
        import imageio_ffmpeg
    except ImportError:
        return None
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def write_mp4(gif: Path) -> Path:
    """Write a GIF as MP4 next to it; its sides become even, as codecs need. RuntimeError if there
    is no ffmpeg, or it failed.
    """
    ffmpeg = find_ffmpeg()
    if ffmpeg is None:
        raise RuntimeError(f"there is no ffmpeg. Type {install_extra('video')}")
    mp4 = gif.with_suffix(".mp4")
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
    command = [ffmpeg, "-y", "-loglevel", "error", "-i", str(gif), "-vf", even]
    command += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", str(mp4)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0 and mp4.exists():
        return mp4
    mp4.unlink(missing_ok=True)
    why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    raise RuntimeError(f"ffmpeg failed ({why}).")
