// Opens a timeline in Chromium, uses it, and prints what was seen and how long it took, as JSON:
// node browser.mjs PAGE [--hash HASH] [--actions LIST] [--screenshot FILE] [--dark]

import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    screenshot: { type: "string" },
    dark: { type: "boolean", default: false },
    hash: { type: "string", default: "" },
    probe: { type: "boolean", default: false },
    width: { type: "string", default: "1440" },
    height: { type: "string", default: "900" },
    actions: { type: "string", default: "" },
  },
});

/** A Chromium of this machine: one that is named, Playwright's own, or an installed one. */
function findBrowser() {
  const named = process.env.ASSAY_CHROMIUM;
  if (named) return named;
  if (existsSync(chromium.executablePath())) return chromium.executablePath();
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    try {
      return execFileSync("which", [name], { encoding: "utf8" }).trim();
    } catch {
      // The next name may be there.
    }
  }
  return null;
}

const executablePath = findBrowser();
if (values.probe || executablePath === null) {
  console.log(JSON.stringify({ browser: executablePath }));
  process.exit(0);
}
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({
  viewport: { width: Number(values.width), height: Number(values.height) },
  colorScheme: values.dark ? "dark" : "light",
});
const problems = [];
page.on("pageerror", (error) => problems.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
});
page.on("request", (request) => {
  if (!request.url().startsWith("file:")) problems.push(`request of ${request.url()}`);
});
page.on("dialog", (dialog) => {
  problems.push(`dialog: ${dialog.message()}`);
  dialog.dismiss();
});
const file = resolve(positionals[0]);
await page.goto(pathToFileURL(file).href + values.hash);
await page.waitForFunction(
  () =>
    performance.getEntriesByName("assay-first-paint").length > 0 ||
    document.querySelector(".at-state h1")?.textContent?.startsWith("Reading") === false,
  null,
  { timeout: 120_000 },
);
const firstPaint = await page.evaluate(
  () => performance.getEntriesByName("assay-first-paint")[0]?.startTime ?? null,
);
const results = {
  browser: browser.version(),
  bytes: statSync(file).size,
  first_paint_ms: firstPaint,
  ...(await use(page, values.actions.split(",").filter(Boolean))),
};
if (values.screenshot) await page.screenshot({ path: values.screenshot });
console.log(JSON.stringify({ ...results, problems }, null, 2));
await browser.close();

/** Do what is asked for, in order, and report on it. */
async function use(page, actions) {
  const found = {};
  for (const action of actions) {
    const [name, ...rest] = action.split("=");
    const value = rest.join("=");
    if (name === "key") await page.keyboard.press(value);
    else if (name === "wait") await page.waitForTimeout(Number(value));
    else if (name === "search") {
      await page.locator(".at-input").fill(value);
      await page.waitForTimeout(300);
      found.matches = await page.locator(".at-found").textContent();
    } else if (name === "color") await page.locator(".at-select").selectOption(value);
    else if (name === "click") {
      const [x, y] = value.split("x").map(Number);
      await page.mouse.click(x, y);
      await page.waitForTimeout(400);
    } else if (name === "hover") {
      const [x, y] = value.split("x").map(Number);
      await page.mouse.move(x, y);
    } else if (name === "range") {
      const [x, y, to] = value.split("x").map(Number);
      await page.keyboard.down("Shift");
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.move(to, y, { steps: 5 });
      await page.mouse.up();
      await page.keyboard.up("Shift");
      await page.waitForTimeout(300);
    } else if (name === "wheel") {
      await page.mouse.wheel(0, Number(value));
      await page.waitForTimeout(100);
    } else if (name === "pinch") await pinch(page, ...value.split("x").map(Number));
    else if (name === "panel") found.panel = await page.locator(".at-panel").innerText();
    else if (name === "view") {
      found.view = await page.evaluate(() => {
        const { from, to } = window.assayTimeline.viewport;
        return [from, to];
      });
    } else if (name === "frames") found.frames = await page.evaluate(frames);
    else if (name === "text") found.text = await page.locator("body").innerText();
    else throw new Error(`unknown action ${name}`);
  }
  return found;
}

/** Two fingers that move apart about a point. */
async function pinch(page, x, y) {
  const session = await page.context().newCDPSession(page);
  const touch = (type, spread) =>
    session.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: type === "touchEnd" ? [] : [-1, 1].map((side) => ({ x: x + side * spread, y })),
    });
  await touch("touchStart", 20);
  for (const spread of [40, 80, 160]) await touch("touchMove", spread);
  await touch("touchEnd", 0);
  await page.waitForTimeout(200);
}

/** Time of drawing while zooming from the whole trace to nanoseconds and back. */
async function frames() {
  const { chart, viewport } = window.assayTimeline;
  const times = [];
  viewport.fitAll();
  for (let at = 0; at < 240; at++) {
    viewport.zoom(at < 120 ? 1.12 : 1 / 1.12, 0.37);
    const before = performance.now();
    chart.draw(before);
    times.push(performance.now() - before);
    if (at % 20 === 0) await new Promise(requestAnimationFrame);
  }
  times.sort((one, other) => one - other);
  return { median_ms: times[120], p95_ms: times[228], worst_ms: times[239] };
}
