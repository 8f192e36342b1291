// The report page in a real browser: REPORT names the program that writes it, CHROMIUM the browser (default: chromium).
// With SCREENSHOTS=FOLDER every look of the page is kept there as a picture.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { startBrowser } from "./browser.mjs";

const run = promisify(execFile);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const LOOKS = [
  ["screen", "light"],
  ["screen", "dark"],
  ["print", "light"],
  ["print", "dark"],
];

let folder, browser, page, full, empty;

before(async () => {
  const program = process.env.REPORT;
  assert.ok(program, "REPORT must name the program that writes the report");
  folder = await mkdtemp(join(tmpdir(), "report-page-"));
  const write = async (name, ...input) => {
    const file = join(folder, name);
    await run(program, ["-o", file, "-source", "audit.jsonl", ...input]);
    return pathToFileURL(file).href;
  };
  full = await write("full.html", "-grants", here("grants.json"), here("audit.jsonl"));
  empty = await write("empty.html", "/dev/null");
  browser = await startBrowser(process.env.CHROMIUM ?? "chromium");
});

after(async () => {
  await browser?.close();
  if (folder) await rm(folder, { recursive: true });
});

beforeEach(async () => {
  page = await browser.open();
  await page.resize(1280, 900);
});

afterEach(() => page.close());

const keep = async (name) => {
  if (process.env.SCREENSHOTS) await writeFile(join(process.env.SCREENSHOTS, `${name}.png`), await page.screenshot());
};
const openAll = () => page.ask(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));

test("the page asks for nothing but itself and the browser has nothing to complain about", async () => {
  for (const url of [full, empty]) {
    page.requests.length = 0;
    for (const [media, scheme] of LOOKS) {
      await page.look(media, scheme);
      await page.visit(url);
      await openAll();
    }
    assert.deepEqual(new Set(page.requests), new Set([url]));
    assert.deepEqual(page.complaints, []);
  }
});

test("the policy lets no script and no other style in, and the values of the log stay text", async () => {
  await page.visit(full);
  const found = await page.ask(() => {
    const inserted = document.createElement("script");
    inserted.textContent = "globalThis.ran = true";
    document.body.append(inserted);
    const button = document.createElement("button");
    button.setAttribute("onclick", "globalThis.ran = true");
    document.body.append(button);
    button.click();
    const style = document.createElement("style");
    style.textContent = "h1 { color: rgb(1, 2, 3) !important }";
    document.head.append(style);
    const result = { ran: globalThis.ran === true, color: getComputedStyle(document.querySelector("h1")).color };
    for (const added of [inserted, button, style]) added.remove();
    const all = [...document.querySelectorAll("*")];
    result.scripts = all.filter((one) => one.matches("script, img, iframe, link, object, embed, base, form")).length;
    result.links = all.flatMap((one) => [...one.attributes].filter(({ name }) => /^(on|src|href|style)/.test(name)));
    result.links = result.links.map(({ name, value }) => `${name}=${value}`);
    result.text = document.body.innerText.includes('<script>fetch("//evil.example")</script>');
    return result;
  });
  assert.equal(found.ran, false);
  assert.notEqual(found.color, "rgb(1, 2, 3)");
  assert.equal(found.scripts, 0);
  assert.deepEqual(found.links, ["href=#runs"]);
  assert.equal(found.text, true);
  assert.ok(page.complaints.length >= 3, "the policy reports what it stopped");
});

test("every text has a contrast of at least 4.5 to 1, in light, in dark and in print", async () => {
  const backgrounds = new Set();
  for (const url of [full, empty]) {
    await page.visit(url);
    await openAll();
    for (const [media, scheme] of LOOKS) {
      await page.look(media, scheme);
      const { faint, background, texts } = await page.ask(contrasts);
      assert.deepEqual(faint, [], `${media}, ${scheme}`);
      assert.ok(texts > (url === full ? 100 : 8), `${texts} texts were looked at`);
      if (media === "screen") backgrounds.add(background);
      await keep(`${url === full ? "full" : "empty"}-${media}-${scheme}`);
    }
  }
  assert.equal(backgrounds.size, 2, "light and dark differ");
});

/** Runs in the page: the texts that stand out too little from what is behind them. */
function contrasts() {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    texts += 1;
    const pair = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (!(ratio >= 4.5)) faint.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return { faint, texts, background: getComputedStyle(document.body).backgroundColor };
}

test("findings, prompts and the filter are reached and worked with the keyboard alone", async () => {
  await page.visit(full);
  const tabTo = async (selector) => {
    for (let steps = 0; steps < 60; steps += 1) {
      await page.press("Tab");
      if (await page.ask((selector) => document.activeElement.matches(selector), selector)) return;
    }
    assert.fail(`no way to ${selector} with the Tab key`);
  };
  await tabTo("a.skip");
  await tabTo("#only-advised");
  const plain = () => page.ask(() => document.querySelector("tbody.plain").checkVisibility());
  assert.equal(await plain(), true);
  await page.press(" ", " ");
  assert.equal(await plain(), false);
  await page.press(" ", " ");
  assert.equal(await plain(), true);
  const shown = () =>
    page.ask(() => document.querySelector("article").checkVisibility({ contentVisibilityAuto: true }));
  await tabTo(".more > td > details > summary");
  const outline = await page.ask(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, "solid", "what has the focus is marked");
  assert.equal(await shown(), false);
  await page.press("Enter", "\r");
  assert.equal(await shown(), true);
  await page.press("Enter", "\r");
  assert.equal(await shown(), false);
  await openAll();
  await page.ask(() => document.querySelectorAll(".prompt").forEach((prompt) => (prompt.open = false)));
  await tabTo(".prompt > summary");
  await page.press(" ", " ");
  assert.match(await page.ask(() => document.querySelector(".prompt[open] pre").innerText), /no change warranted/);
});

test("a closed finding is printed all the same, and what only serves a screen is not", async () => {
  await page.visit(full);
  await page.look("print", "light");
  const printed = await page.ask(() => {
    const visible = (selector) => document.querySelector(selector).checkVisibility();
    return {
      open: document.querySelectorAll("[open]").length,
      finding: visible("article"),
      prompt: visible("pre"),
      filter: visible(".filter"),
    };
  });
  assert.deepEqual(printed, { open: 0, finding: true, prompt: true, filter: false });
  const { data } = await page.send("Page.printToPDF", { preferCSSPageSize: true, printBackground: true });
  const pdf = Buffer.from(data, "base64");
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  if (process.env.SCREENSHOTS) await writeFile(join(process.env.SCREENSHOTS, "full.pdf"), pdf);
});

test("no width makes the page itself scroll sideways", async () => {
  for (const url of [full, empty]) {
    await page.visit(url);
    await openAll();
    for (const width of [320, 480, 768, 1024, 1920]) {
      await page.resize(width, 900);
      assert.ok((await page.ask(() => document.documentElement.scrollWidth)) <= width, `${width}`);
      if (url === full) await keep(`full-${width}`);
    }
  }
});

test("the structure serves assistive technology", async () => {
  for (const [url, tables] of [
    [full, 3],
    [empty, 0],
  ]) {
    await page.visit(url);
    const found = await page.ask(() => {
      const all = (selector) => [...document.querySelectorAll(selector)];
      const ids = all("[id]").map(({ id }) => id);
      return {
        lang: document.documentElement.lang,
        charset: document.characterSet,
        h1: all("h1").length,
        levels: all("h1, h2, h3").map(({ tagName }) => Number(tagName[1])),
        unscoped: all("th:not([scope])").length,
        tables: all("table").length,
        unnamed: all("tbody tr:not(.more)").filter((row) => !row.querySelector("th[scope=row]")).length,
        repeated: ids.length - new Set(ids).size,
        dangling: all("[aria-labelledby]").filter(
          (one) => !document.getElementById(one.getAttribute("aria-labelledby")),
        ).length,
        landmarks: ["header", "main", "footer"].map((name) => all(name).length),
      };
    });
    const { levels, ...rest } = found;
    const expected = { lang: "en", charset: "UTF-8", h1: 1, unscoped: 0, tables, unnamed: 0, repeated: 0, dangling: 0 };
    assert.deepEqual(rest, { ...expected, landmarks: [1, 1, 1] });
    levels.reduce((before, level) => (assert.ok(level <= before + 1, `${levels}`), level));
  }
});
