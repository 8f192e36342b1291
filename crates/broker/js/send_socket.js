  const { process, Buffer } = globalThis;

  // Nothing is loaded before the first call. Where a program runs decides whether it may import; this need not.
  async function http() {
    return process.getBuiltinModule ? process.getBuiltinModule("node:http") : import("node:http");
  }

  async function send(method, path, text) {
    const socketPath = process.env.HOST_API_SOCKET;
    if (!socketPath) throw new Error("host api: HOST_API_SOCKET is not set: there is no grant, or it was removed");
    const { request } = await http();
    const headers = text === undefined ? {} : {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(text),
    };
    return new Promise((resolve, reject) => {
      // A connection a call: one kept for the next call could be closed by the time that call is sent, and nobody could
      // tell whether the call was made.
      const call = request({ socketPath, method, path, headers, agent: false });
      let answered = false;
      call.on("error", (error) => {
        // A refusal may come while the body is still being sent, which then fails.
        if (!answered) reject(error);
      });
      call.on("response", (answer) => {
        answered = true;
        const pieces = [];
        answer.on("data", (piece) => pieces.push(piece));
        answer.on("error", reject);
        answer.on("end", () => resolve({ status: answer.statusCode, body: Buffer.concat(pieces).toString("utf8") }));
      });
      call.end(text);
    });
  }
