function parseConfig(text) {
  let cfg;
  try { cfg = JSON.parse(text); } catch (err) { throw new Error(`Config is not valid JSON: ${err.message}`, { cause: err }); }
  if (typeof cfg.port !== 'number') throw new TypeError(`port must be a number, got ${typeof cfg.port}`);
  if (!Number.isInteger(cfg.port) || cfg.port < 1 || cfg.port > 65535) throw new RangeError(`port out of range: ${cfg.port.toLocaleString()}`);
  return cfg;
}
for (const t of ['{"port": 8080}', '{"port": "80"}', '{"port": 123456}', '{port: 1}', 'null', '{"port": 1e3, "x": }']) {
  try { console.log(parseConfig(t)); } catch (e) { console.log(`${e.name}: ${e.message}`, e.cause ? `(cause ${e.cause.name})` : ''); }
}
