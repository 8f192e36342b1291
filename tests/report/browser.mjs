// A headless Chromium, spoken to in the DevTools protocol. Nothing but what node itself brings.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_MS = 60_000;
const ANSWER_MS = 30_000;

/** Starts the browser, and fails with what it said when it does not come up. */
export async function startBrowser(program) {
  const profile = await mkdtemp(join(tmpdir(), "report-browser-"));
  const forget = () => rm(profile, { recursive: true, force: true, maxRetries: 5 });
  try {
    return await start(program, profile, forget);
  } catch (error) {
    await forget();
    throw error;
  }
}

async function start(program, profile, forget) {
  const arguments_ = [
    "--headless=new",
    "--no-sandbox", // suites run as root in a container, where Chromium's own sandbox refuses to start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    `--user-data-dir=${profile}`,
    "about:blank",
  ];
  const child = spawn(program, arguments_, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const address = await new Promise((resolve, reject) => {
    let said = "";
    const fail = (why) => reject(new Error(`${program} did not start: ${why}\n${said}`));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      fail(`no answer within ${START_MS / 1000} s`);
    }, START_MS);
    child.once("error", (error) => {
      clearTimeout(timer);
      fail(error.message);
    });
    child.once("close", (code) => {
      clearTimeout(timer);
      fail(`it ended with exit code ${code}`);
    });
    child.stderr.on("data", (bytes) => {
      said += bytes;
      const found = /DevTools listening on (ws:\/\/\S+)/.exec(said);
      if (found) {
        clearTimeout(timer);
        resolve(found[1]);
      }
    });
  });
  const connection = await connect(address);
  return {
    open: () => openPage(connection),
    async close() {
      await connection.send("Browser.close").catch(() => child.kill("SIGKILL"));
      const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(timer);
      connection.socket.close();
      await forget();
    },
  };
}

async function connect(address) {
  const socket = new WebSocket(address);
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", () => reject(new Error(`cannot reach ${address}`)), { once: true });
  });
  const waiting = new Map();
  const listeners = new Set();
  let next = 1;
  socket.addEventListener("message", ({ data }) => {
    const message = JSON.parse(data);
    if (message.id === undefined) {
      for (const listener of listeners) listener(message);
      return;
    }
    const { resolve, reject, timer } = waiting.get(message.id);
    waiting.delete(message.id);
    clearTimeout(timer);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  });
  const send = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      const id = next++;
      const timer = setTimeout(() => {
        waiting.delete(id);
        reject(new Error(`${method} was not answered within ${ANSWER_MS / 1000} s`));
      }, ANSWER_MS);
      waiting.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  return { socket, send, listeners };
}

/** A tab that keeps what it asked the network for and what it complained about. */
async function openPage(connection) {
  const { targetId } = await connection.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await connection.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => connection.send(method, params, sessionId);
  const page = { requests: [], complaints: [] };
  let loaded = () => {};
  connection.listeners.add(({ sessionId: from, method, params }) => {
    if (from !== sessionId) return;
    if (method === "Network.requestWillBeSent") page.requests.push(params.request.url);
    if (method === "Runtime.consoleAPICalled") page.complaints.push(JSON.stringify(params.args));
    if (method === "Runtime.exceptionThrown") page.complaints.push(params.exceptionDetails.text);
    if (method === "Log.entryAdded") page.complaints.push(params.entry.text);
    if (method === "Page.loadEventFired") loaded();
  });
  for (const domain of ["Page", "Network", "Runtime", "Log"]) await send(`${domain}.enable`);
  const visit = async (url) => {
    const done = new Promise((resolve) => {
      loaded = resolve;
    });
    const { errorText } = await send("Page.navigate", { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await done;
  };
  /** The value of a function that runs in the page. */
  const ask = async (question, ...values) => {
    const expression = `(${question})(...${JSON.stringify(values)})`;
    const answer = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (answer.exceptionDetails) throw new Error(answer.exceptionDetails.exception?.description);
    return answer.result.value;
  };
  /** `media` is "screen" or "print"; `scheme` is "light" or "dark". */
  const look = (media, scheme) =>
    send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value: scheme }] });
  const resize = (width, height) =>
    send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  const press = async (key, text = undefined) => {
    const code = { Tab: 9, Enter: 13, " ": 32 }[key];
    const event = { key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: code };
    await send("Input.dispatchKeyEvent", { ...event, type: "keyDown", text });
    await send("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
  };
  const screenshot = async () => {
    const { data } = await send("Page.captureScreenshot", { captureBeyondViewport: true });
    return Buffer.from(data, "base64");
  };
  const close = () => connection.send("Target.closeTarget", { targetId });
  return Object.assign(page, { visit, ask, look, resize, press, screenshot, send, close });
}
