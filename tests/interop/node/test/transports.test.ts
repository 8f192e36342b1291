// The same promises over every protocol, codec and HTTP version.

import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import {
  NotDispatchedReason,
  NotDispatchedSchema,
  RunRequestSchema,
  SandboxService,
} from "../gen/plimsoll/v1/plimsoll_pb.js";
import { Daemon, UNLIMITED } from "../harness.ts";
import { bearer, TRANSPORTS } from "../transports.ts";

const REQUEST_ID = "0123456789abcdef0123456789abcdef";

type Fields = Omit<MessageInitShape<typeof RunRequestSchema>, "$typeName">;

/** A snippet request that states the protocol. */
function snippet(code: string, fields: Fields = {}) {
  return create(RunRequestSchema, { protocol: 4, payload: { case: "javascript", value: { code } }, ...fields });
}

/** The error of a call that must fail. */
async function failure(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof ConnectError, `not a ConnectError: ${error}`);
    return error;
  }
  throw new assert.AssertionError({ message: "the call succeeded" });
}

/** Code and reason of a refusal. */
async function refusal(call: Promise<unknown>): Promise<[string | undefined, string | undefined]> {
  const error = await failure(call);
  const [detail] = error.findDetails(NotDispatchedSchema);
  return [Code[error.code], detail && NotDispatchedReason[detail.reason]];
}

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start(UNLIMITED);
});
after(() => daemon.stop());

for (const [name, transport] of Object.entries(TRANSPORTS)) {
  describe(name, () => {
    let client: Client<typeof SandboxService>;
    before(() => {
      client = createClient(SandboxService, transport(daemon.baseUrl));
    });

    test("describe states the wasm provider", async () => {
      const answer = await client.describe({});
      assert.deepEqual([answer.sandbox, answer.isolation, answer.protocol], ["wasm", "process", 4]);
      assert.match(answer.javascriptEnvironment?.identity ?? "", /^quickjs-wasm:sha256:[0-9a-f]{64}$/);
      assert.deepEqual(answer.javascriptEnvironment?.languages, ["javascript"]);
    });

    test("a run carries bytes, exit code, tier and record", async () => {
      const code = "process.stdout.write(new Uint8Array([255, 0, 254])); process.exit(3)";
      const answer = await client.run(snippet(code, { minimumIsolation: "process" }));
      assert.equal(answer.result.case, "javascript");
      assert.deepEqual([...answer.result.value.stdout], [255, 0, 254]);
      assert.equal(answer.result.value.exitCode, 3);
      assert.deepEqual([answer.sandbox, answer.isolation, answer.record?.version], ["wasm", "process", 4]);
      assert.equal(answer.record?.environment, answer.environment);
      assert.match(answer.record?.recordSha256 ?? "", /^[0-9a-f]{64}$/);
    });

    test("the digests are the published ones whatever the codec", async () => {
      const { record } = await client.run(snippet("console.log(6*7)"));
      assert.equal(record?.requestSha256, "f65090a97b59925602246c3a7ab3e5d05dfde6cae06c13365cbd0e6be4986dc3");
      assert.equal(record?.resultSha256, "9a471e25396d4e0a2ef3124f138007aadce1a73d746dd4b99c38c50c0df2a7a5");
    });

    test("the request id is echoed", async () => {
      let echoed: string | null = null;
      const headers = { "Plimsoll-Request-Id": REQUEST_ID };
      await client.describe({}, { headers, onHeader: (header) => (echoed = header.get("Plimsoll-Request-Id")) });
      assert.equal(echoed, REQUEST_ID);
    });

    test("refusals keep code and reason", async () => {
      const before = await daemon.metric("plimsoll_runs_total");
      assert.deepEqual(await refusal(client.run(snippet("1", { minimumIsolation: "vm" }))), [
        "FailedPrecondition",
        "ISOLATION",
      ]);
      assert.deepEqual(await refusal(client.run(snippet(""))), ["InvalidArgument", "REQUEST"]);
      assert.deepEqual(await refusal(client.run(snippet("1", { protocol: 0 }))), ["InvalidArgument", "PROTOCOL"]);
      assert.deepEqual(await refusal(client.run(snippet("1", { protocol: 5 }))), ["Unimplemented", "PROTOCOL"]);
      const softwareRule = { mode: "exact", identities: ["image:a"] };
      assert.deepEqual(await refusal(client.run(snippet("1", { softwareRule }))), [
        "FailedPrecondition",
        "ENVIRONMENT",
      ]);
      const project = { case: "project" as const, value: { steps: ["ls"] } };
      assert.deepEqual(await refusal(client.run({ protocol: 4, payload: project })), ["Unimplemented", "UNSUPPORTED"]);
      assert.deepEqual(await refusal(client.openSession({ protocol: 4 })), ["Unimplemented", "UNSUPPORTED"]);
      assert.equal(await daemon.metric("plimsoll_runs_total"), before);
    });

    test("a wrong token is unauthenticated", async () => {
      const stranger = createClient(SandboxService, transport(daemon.baseUrl, [bearer("wrong".repeat(8))]));
      assert.equal((await failure(stranger.describe({}))).code, Code.Unauthenticated);
      const nobody = createClient(SandboxService, transport(daemon.baseUrl, []));
      assert.equal((await failure(nobody.run(snippet("1")))).code, Code.Unauthenticated);
    });

    test("the run's own deadline is a result", async () => {
      const answer = await client.run(snippet("console.log(1);while(true){}", { timeoutMs: 50 }));
      assert.equal(answer.result.case, "javascript");
      assert.deepEqual([answer.result.value.timedOut, answer.result.value.exitCode], [true, 124]);
      assert.equal(Buffer.from(answer.result.value.stdout).toString(), "1\n");
    });

    test("the call's deadline ends the run", async () => {
      const started = performance.now();
      const error = await failure(client.run(snippet("while(true){}", { timeoutMs: 20_000 }), { timeoutMs: 300 }));
      assert.equal(error.code, Code.DeadlineExceeded);
      assert.deepEqual(error.findDetails(NotDispatchedSchema), []);
      assert.ok(performance.now() - started < 2_000);
      await daemon.waitForMetric("plimsoll_inflight", 0);
    });

    test("aborting the call ends the run", async () => {
      const abort = new AbortController();
      const call = failure(client.run(snippet("while(true){}", { timeoutMs: 20_000 }), { signal: abort.signal }));
      await daemon.waitForMetric("plimsoll_inflight", 1);
      abort.abort();
      assert.equal((await call).code, Code.Canceled);
      await daemon.waitForMetric("plimsoll_inflight", 0);
    });

    test("fifty calls at once each get their own answer", async () => {
      const numbers = Array.from({ length: 50 }, (_, number) => number);
      const answers = await Promise.all(numbers.map((number) => client.run(snippet(`console.log(${number})`))));
      for (const [number, answer] of answers.entries()) {
        assert.equal(answer.result.case, "javascript");
        assert.equal(Buffer.from(answer.result.value.stdout).toString(), `${number}\n`);
      }
    });

    test("a megabyte of code comes back as a refusal, a large output whole", async () => {
      assert.deepEqual(await refusal(client.run(snippet("1;".repeat(524_288)))), ["InvalidArgument", "REQUEST"]);
      const answer = await client.run(snippet("process.stdout.write('é'.repeat(32768))"));
      assert.equal(answer.result.case, "javascript");
      assert.equal(answer.result.value.stdout.length, 65_536);
      assert.equal(answer.result.value.stdoutTruncated, false);
    });
  });
}
