"""Writes the pages, lets a script of its own use each as a person would, and reads what came of it from the page."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import captured, synthetic
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.report import FusionReport
from torchair_autofuse.report.html import render

WIDTHS = {"desk": (1280, 900), "phone": (500, 900)}
BLOCKS = 34  # about 3000 nodes

# Runs after the page's own script. Waits for what the page does later; the result is the text of one element.
DRIVER = """
<script>
window.addEventListener("error", (e) => console.error(`uncaught: ${e.message}`));
setTimeout(async () => {
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  const seen = {}, query = document.getElementById("query");
  const text = (id) => document.getElementById(id).textContent;
  const stage = document.querySelector(".stage");
  const key = (name) => stage.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const type = async (words) => {
    query.value = words;
    query.dispatchEvent(new Event("input"));
    await later(400);
  };
  const send = (name, at) => stage.dispatchEvent(new PointerEvent(name, { ...at, bubbles: true, pointerId: 1 }));
  try {
    // a picture is drawn with the next frame, which a busy machine may make late
    for (let i = 0; i < 60 && !stage.querySelector("rect, path"); i++) await later(50);
    seen.drawn = stage.querySelectorAll("rect, path").length;
    seen.rows = document.querySelectorAll(".ops > tbody > tr:not(.detail)").length;
    seen.wide = document.documentElement.scrollWidth > window.innerWidth;
    await type(SEARCH);
    seen.found = text("matches");
    seen.rowsFound = document.querySelectorAll(".ops > tbody > tr:not(.detail)").length;
    await type("no such thing at all");
    seen.nothing = text("matches");
    await type("");
    seen.rowsAgain = document.querySelectorAll(".ops > tbody > tr:not(.detail)").length;
    stage.focus();
    for (const name of "ArrowDown ArrowDown ArrowRight ArrowUp + - 0".split(" ")) { key(name); await later(30); }
    seen.panel = document.querySelector(".panel h3").textContent;
    const index = page.lists.before.findIndex((n) => n.c);
    page.pictures.before.show(index);
    await later(100);
    const p = page.pictures.before, k = p.place.get(index), box = stage.getBoundingClientRect();
    const clientX = box.left + (p.at.x[k] + 20 - p.view.x) * p.view.scale;
    const clientY = box.top + (p.at.y[k] + 9 - p.view.y) * p.view.scale;
    stage.setPointerCapture = () => {};  // a made-up pointer cannot be captured
    send("pointerdown", { clientX, clientY });
    send("pointerup", { clientX, clientY });
    await later(100);
    seen.clicked = document.querySelector(".panel h3").textContent;
    seen.wanted = page.lists.before[index].n;
    document.querySelector(".panel .chip").click();
    await later(100);
    const detail = document.querySelector(".detail:not([hidden])");
    detail.querySelectorAll("details").forEach((d) => { d.open = true; });
    document.querySelectorAll(".group").forEach((d) => { d.open = true; });
    await later(200);
    seen.source = detail.textContent.includes("__aicore__");
    seen.why = /Whykernels \\d+ .* 1; GM bytes .*; time .*Limit (launch|MTE2|vector|MTE3), /
      .test(detail.textContent);
    seen.buffers = detail.querySelectorAll(".buffers tbody tr").length;
    seen.refusals = document.querySelectorAll(".group li").length;
    seen.points = document.querySelectorAll(".chart .point").length;
  } catch (error) { console.error(`driver: ${error.stack}`); }
  const output = { id: "seen", textContent: JSON.stringify(seen) };
  document.body.append(Object.assign(document.createElement("output"), output));
}, 200);
</script>
"""


def reports() -> dict[str, tuple[FusionReport, str]]:
    """The page's name -> its report and a search that finds something."""
    many = fuse(synthetic.transformer(BLOCKS), FusionContext(), Options(enabled=True, passes=frozenset(["all"])))
    return {
        "gpt2": (captured.case("gpt2__static__g0").result.report, "softmax"),
        "llama_dynamic": (captured.case("llama__dynamic__g0").result.report, "AF206"),
        "many_nodes": (many.report, "gelu"),
    }


def look(path: Path, profile: Path, size: tuple[int, int]) -> tuple[dict[str, object], list[str]]:
    """What the driver saw, and what went to the console."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
        f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=12000", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<output id="seen">(.*?)</output>', done.stdout, re.DOTALL)
    return json.loads(html.unescape(found[1])) if found else {}, console


def problems(seen: dict[str, object], console: list[str], report: FusionReport) -> list[str]:
    """What is not as it should be."""
    rows = len(report.fused)
    expected = {
        "rows": rows, "rowsAgain": rows, "nothing": "0 nodes, 0 fused ops, 0 refusals found", "source": True,
        "why": True, "clicked": seen.get("wanted"), "wide": False,
    }  # fmt: skip
    wrong = [f"{k}: {seen.get(k)!r}, expected {v!r}" for k, v in expected.items() if seen.get(k) != v]
    wrong += [f"{k} is {seen.get(k)!r}" for k in ("drawn", "panel", "buffers", "refusals", "points") if not seen.get(k)]
    if str(seen.get("found", "0 nodes")).startswith("0 nodes") or seen.get("rowsFound") == rows:
        wrong.append(f"the search: {seen.get('found')!r}, {seen.get('rowsFound')} rows")
    return [*wrong, *console]


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name, (report, search) in reports().items():
            path = Path(folder) / f"{name}.html"
            driver = DRIVER.replace("SEARCH", json.dumps(search))
            path.write_text(render([report]).replace("</body>", f"{driver}</body>"), encoding="utf-8")
            for where, size in WIDTHS.items():
                start = time.monotonic()
                seen, console = look(path, Path(folder) / "profile", size)
                wrong = problems(seen, console, report)
                failed += bool(wrong)
                state = "".join(f"\n    {w}" for w in wrong) or "ok"
                size_kb = path.stat().st_size // 1024
                print(
                    f"{name} at {size[0]} ({where}), {size_kb} KiB, {time.monotonic() - start:.1f} s: {state}",
                    flush=True,
                )
    print(f"pages in Chromium: {failed or 'none'} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
