// HTTP/2 frame by frame, with node's own client: an answer that does not wait for the body arrives whole, and the stream
// is then reset without an error.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import http2 from "node:http2";
import { Daemon, TOKEN, UNLIMITED } from "../harness.ts";

const RUN = "/plimsoll.v1.SandboxService/Run";
const JSON_TYPE = { "content-type": "application/json" };
const BEARER = { authorization: `Bearer ${TOKEN}` };

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start(UNLIMITED);
});
after(() => daemon.stop());

interface Answer {
  status: number | undefined;
  mark: string | undefined;
  code: unknown;
  resetCode: number | undefined;
}

/** Sends a request whose body is started and never finished, and reads what comes back. */
async function heldBack(path: string, headers: http2.OutgoingHttpHeaders): Promise<Answer> {
  const session = http2.connect(daemon.baseUrl);
  const stream = session.request({ ":method": "POST", ":path": path, ...headers }, { endStream: false });
  stream.write("{");
  let status: number | undefined;
  let mark: string | undefined;
  let body = "";
  stream.on("response", (head) => {
    status = head[":status"];
    mark = head["plimsoll-not-dispatched"] as string | undefined;
  });
  stream.setEncoding("utf8").on("data", (text: string) => (body += text));
  await new Promise<void>((resolve, reject) => stream.on("close", resolve).on("error", reject));
  session.destroy();
  return { status, mark, code: (JSON.parse(body) as { code: unknown }).code, resetCode: stream.rstCode };
}

const whole = { resetCode: http2.constants.NGHTTP2_NO_ERROR };

test("no token", async () => {
  const answer = await heldBack(RUN, JSON_TYPE);
  assert.deepEqual(answer, { status: 401, mark: "permission", code: "unauthenticated", ...whole });
});

test("an unknown procedure", async () => {
  const answer = await heldBack("/plimsoll.v1.SandboxService/Nope", { ...JSON_TYPE, ...BEARER });
  assert.deepEqual(answer, { status: 403, mark: "permission", code: "permission_denied", ...whole });
});

test("another path", async () => {
  const answer = await heldBack("/metrics", { ...JSON_TYPE, ...BEARER });
  assert.deepEqual([answer.status, answer.mark, answer.resetCode], [404, "unsupported", 0]);
});

test("a content type that is not served", async () => {
  const answer = await heldBack(RUN, { "content-type": "text/plain", ...BEARER });
  assert.deepEqual([answer.status, answer.mark, answer.resetCode], [415, "request", 0]);
});

test("a declared length over 8 MiB", async () => {
  const answer = await heldBack(RUN, { ...JSON_TYPE, ...BEARER, "content-length": "8388609" });
  assert.deepEqual(answer, { status: 429, mark: "request", code: "resource_exhausted", ...whole });
});
