class App {
  #mw = []; #routes = [];
  use(fn) { this.#mw.push(fn); return this; }
  route(method, pattern, handler) { const keys = []; const re = new RegExp('^' + pattern.replace(/:(\w+)/g, (_, k) => (keys.push(k), '([^/]+)')).replace('*', '(.*)') + '/?$'); this.#routes.push({ method, re, keys, handler }); return this; }
  async handle(method, url) {
    const { pathname, searchParams } = new URL(url, 'http://localhost'); const ctx = { method, path: pathname, query: Object.fromEntries(searchParams), status: 404, body: null, log: [] };
    const dispatch = async (i) => { if (i < this.#mw.length) return this.#mw[i](ctx, () => dispatch(i + 1)); for (const r of this.#routes) { const m = r.method === method && r.re.exec(pathname); if (m) { ctx.params = Object.fromEntries(r.keys.map((k, n) => [k, decodeURIComponent(m[n + 1])])); ctx.status = 200; ctx.body = await r.handler(ctx); return; } } };
    await dispatch(0); return ctx;
  }
}
const app = new App()
  .use(async (ctx, next) => { ctx.log.push('in'); await next(); ctx.log.push('out'); })
  .use(async (ctx, next) => { try { await next(); } catch (e) { ctx.status = e.status ?? 500; ctx.body = { error: e.message }; } })
  .route('GET', '/users/:id', ({ params, query }) => ({ id: +params.id, ...query }))
  .route('GET', '/files/*', ({ path }) => path.slice(7))
  .route('POST', '/users', () => { throw Object.assign(new Error('Teapot'), { status: 418 }); })
  .route('GET', '/crash', () => null.x)
  .route('GET', '/hello/:name', async ({ params }) => { await new Promise((r) => setTimeout(r, 5)); return `Hello ${params.name}!`; });
(async () => {
  for (const [m, u] of [['GET', '/users/42?verbose=1&tag=a%20b'], ['GET', '/files/a/b.txt'], ['POST', '/users'], ['GET', '/crash'], ['GET', '/hello/J%C3%B6rg'], ['DELETE', '/nope']]) { const { status, body, log, params } = await app.handle(m, u); console.log(m, u, status, body, log.join('>'), params); }
  console.log(await app.handle('GET', '/users/7'));
})();
