// Starts the real plimsolld for one test file and stops it again.

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";

export const TOKEN = "interop-token-0123456789abcdef0123456789abcdef";

/** No limiter in the way: these suites are about answers, not about admission. */
export const UNLIMITED: Record<string, string> = {
  SANDBOX_PROVIDER: "wasm",
  SANDBOX_MAX_CONCURRENT: "64",
  SANDBOX_PER_KEY_CONCURRENT: "0",
  SANDBOX_RATE_PER_MIN: "0",
  PLIMSOLL_TOKEN: TOKEN,
};

const START_MS = 30_000;
const STOP_MS = 30_000;

interface LogLine {
  msg: string;
  addr?: string;
  metrics_addr?: string;
}

export class Daemon {
  readonly baseUrl: string;
  readonly #metricsUrl: string;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, line: LogLine) {
    this.#process = process;
    this.baseUrl = `http://${line.addr}`;
    this.#metricsUrl = `http://${line.metrics_addr}/metrics`;
  }

  /** Runs the program of PLIMSOLLD on free ports with exactly these variables and waits until it serves. */
  static async start(variables: Record<string, string>): Promise<Daemon> {
    const program = process.env["PLIMSOLLD"];
    assert.ok(program, "PLIMSOLLD must name the daemon's program");
    const child = spawn(program, [], {
      env: { PLIMSOLL_ADDR: "127.0.0.1:0", PLIMSOLL_METRICS_ADDR: "127.0.0.1:0", ...variables },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const log: string[] = [];
    const listening = new Promise<LogLine>((resolve, reject) => {
      const late = setTimeout(
        () => reject(new Error(`no listening line in ${START_MS} ms: ${log.join("\n")}`)),
        START_MS,
      );
      createInterface({ input: child.stderr })
        .on("line", (text) => {
          log.push(text);
          const line = JSON.parse(text) as LogLine;
          if (line.msg.includes("listening")) {
            clearTimeout(late);
            resolve(line);
          }
        })
        .on("close", () => {
          clearTimeout(late);
          reject(new Error(`plimsolld stopped before it served: ${log.join("\n")}`));
        });
    });
    try {
      return new Daemon(child, await listening);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  /** The value of one series of the metrics text. */
  async metric(series: string): Promise<number> {
    const answer = await fetch(this.#metricsUrl);
    const line = (await answer.text()).split("\n").find((text) => text.startsWith(`${series} `));
    assert.ok(line, `no series ${series}`);
    return Number(line.slice(series.length + 1));
  }

  /** Waits until the series has the value. */
  async waitForMetric(series: string, value: number, ms = 5_000): Promise<void> {
    const deadline = performance.now() + ms;
    for (;;) {
      const seen = await this.metric(series);
      if (seen === value) return;
      assert.ok(performance.now() < deadline, `${series} is ${seen} and not ${value} after ${ms} ms`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Asks the daemon to drain and requires a clean end. */
  async stop(): Promise<void> {
    const ended = new Promise<number | null>((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    const late = setTimeout(() => this.#process.kill("SIGKILL"), STOP_MS);
    const code = await ended;
    clearTimeout(late);
    assert.equal(code, 0, "plimsolld did not end cleanly");
  }
}
