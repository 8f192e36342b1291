  const hostCall = globalThis.__plimsoll_host_call;

  function send(method, path, text) {
    // Neither holds a character that JSON would escape.
    let request = '{"method":"' + method + '","path":"' + path + '"';
    if (text !== undefined) request += ',"body":' + text;
    return hostCall(request + "}");
  }
