"""Text of the built site whose contrast with what is behind it is too small to read, measured in headless Chromium.

Owns: the measure (WCAG 2.1, level AA: 4.5, or 3 for large text), in both schemes.
Must not: look anything up on the network.
Read next: ``check.py``.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["browsed", "faint_texts"]

_SCRIPT = """<script>
addEventListener("load", () => setTimeout(() => {
  const numbers = text => { const found = text.match(/[\\d.]+/g).map(Number); return found.length < 4 ? [...found, 1] : found };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = color => color.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const color = numbers(getComputedStyle(one).backgroundColor);
      if (color[3] > 0) layers.unshift(color);
      if (color[3] === 1) break;
    }
    return layers.reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = {}, walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= parseFloat(getComputedStyle(one).opacity);
    if (!text || !opacity || !element.getBoundingClientRect().width || style.visibility === "hidden") continue;
    const back = behind(element), color = numbers(style.color);
    const [low, high] = [light(over([...color.slice(0, 3), color[3] * opacity], back)), light(back)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    const contrast = (high + .05) / (low + .05);
    if (contrast < (large ? 3 : 4.5)) found[element.className + style.color] ??= `${contrast.toFixed(2)}: ${text.slice(0, 30)}`;
  }
  const out = document.createElement("pre");
  out.id = "faint";
  out.textContent = JSON.stringify(Object.values(found));
  document.body.append(out);
}, 1000));
</script>"""
_DARK = '<script>document.body.setAttribute("data-md-color-scheme", "slate")</script>'


def browsed(address: str) -> str:
    """A page as Chromium has it when its scripts are done."""
    with tempfile.TemporaryDirectory() as home:
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --window-size=1400,2000 --virtual-time-budget=30000"
        command = ["chromium", *flags.split(), f"--user-data-dir={home}", "--dump-dom", address]
        return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


def faint_texts(folder: Path, pages: Sequence[str]) -> list[str]:
    """A sentence for each text of these pages that is too faint, in the light and in the dark scheme."""
    faults = []
    for page in pages:
        for scheme, change in (("light", ""), ("dark", _DARK)):
            copy = (folder / page).with_suffix(".contrast.html")
            text = (folder / page).read_text("utf-8")
            copy.write_text(text.replace("</body>", f"{change}{_SCRIPT}</body>"), "utf-8")
            shown = re.search(r'<pre id="faint">(.*?)</pre>', browsed(copy.resolve().as_uri()), re.S)
            copy.unlink()
            found = json.loads(html.unescape(shown.group(1))) if shown else ["0: (the page did not load)"]
            faults += [f"{page}, {scheme}: contrast {one}" for one in found]
    return faults
