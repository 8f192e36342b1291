(function () {
  "use strict";
  const allow = "@ALLOW@" || [];
  const { parse, stringify } = JSON;

  const letters = /^[A-Za-z]+$/;
  const alphabet = /^[A-Za-z0-9\-_.~$&+,:=@\/]+$/;
  const longestPath = 8192;

  // The broker's own rule, byte for byte: a path is in its one spelling or it is refused.
  function isCanonical(path) {
    if (path.length > longestPath || path[0] !== "/" || !alphabet.test(path)) return false;
    return path === "/" || path.slice(1).split("/").every((segment) => /[^.]/.test(segment));
  }

  function covers(pattern, path) {
    const wanted = pattern.split("/");
    const given = path.split("/");
    return wanted.length === given.length && wanted.every((segment, at) =>
      segment === "*" ? given[at] !== "" && !given[at].includes(":") : segment === given[at]);
  }

  function isPermitted(method, path) {
    return isCanonical(path)
      && allow.some((entry) => entry.m === method && covers(entry.p, path));
  }

  function failure(status, text) {
    const error = new Error("host api " + status + ": " + text);
    error.status = status;
    error.body = text;
    return error;
  }

  // Defines `send(method, path, text)`: `{ status, body }`, or a promise of it. `text` is JSON or undefined.
  "@SEND@";

  async function call(method, path, body) {
    method = String(method);
    path = String(path);
    // Upper-casing any other letter could make a verb of what is none.
    if (letters.test(method)) method = method.toUpperCase();
    if (!isPermitted(method, path)) throw new Error("host api call not permitted: " + method + " " + path);
    let request;
    if (body !== undefined) {
      request = stringify(body);
      if (request === undefined) throw new TypeError("host api: the body cannot be written as JSON");
    }
    const { status, body: text } = await send(method, path, request);
    if (status < 200 || status > 299) throw failure(status, text);
    try {
      return parse(text);
    } catch {
      return text;
    }
  }

  const client = {
    call: (method, path, body) => call(method, path, body),
    get: (path) => call("GET", path),
    put: (path, body) => call("PUT", path, body),
    post: (path, body) => call("POST", path, body),
    patch: (path, body) => call("PATCH", path, body),
    del: (path) => call("DELETE", path),
  };
  try {
    Object.defineProperty(globalThis, "@GLOBAL@", {
      value: client, writable: true, enumerable: true, configurable: true,
    });
  } catch {
    // A name the language keeps, such as `undefined`: the program finds no client, and the script still ends.
  }
})();
