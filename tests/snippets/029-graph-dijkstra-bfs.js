const graph = { A: { B: 4, C: 2 }, B: { C: 5, D: 10 }, C: { E: 3 }, D: { F: 11 }, E: { D: 4 }, F: {} };
function dijkstra(g, start) {
  const dist = Object.fromEntries(Object.keys(g).map(k => [k, Infinity])); dist[start] = 0;
  const prev = {}, left = new Set(Object.keys(g));
  while (left.size) {
    const u = [...left].reduce((m, v) => dist[v] < dist[m] ? v : m);
    left.delete(u);
    for (const [v, w] of Object.entries(g[u])) if (dist[u] + w < dist[v]) { dist[v] = dist[u] + w; prev[v] = u; }
  }
  return { dist, prev };
}
const { dist, prev } = dijkstra(graph, 'A');
console.log(dist, prev);
const path = []; for (let at = 'F'; at; at = prev[at]) path.unshift(at);
console.log(path.join(' -> '), dist.F);
const bfs = (g, s) => { const seen = new Set([s]), q = [s], order = []; while (q.length) { const n = q.shift(); order.push(n); for (const m of Object.keys(g[n])) if (!seen.has(m)) { seen.add(m); q.push(m); } } return order; };
console.log(bfs(graph, 'A'));
const topo = g => { const out = [], mark = {}; const visit = n => { if (mark[n] === 1) throw new Error('cycle at ' + n); if (mark[n]) return; mark[n] = 1; Object.keys(g[n]).forEach(visit); mark[n] = 2; out.unshift(n); }; Object.keys(g).forEach(visit); return out; };
console.log(topo(graph));
try { topo({ x: { y: 1 }, y: { x: 1 } }); } catch (e) { console.log(e.message); }
const grid = ['S.#.', '..#.', '.#..', '...E'].map(r => r.split(''));
const q = [[0, 0, 0]], seen = new Set(['0,0']); let steps = -1;
while (q.length) { const [r, c, d] = q.shift(); if (grid[r][c] === 'E') { steps = d; break; } for (const [dr, dc] of [[1, 0], [0, 1], [-1, 0], [0, -1]]) { const k = `${r + dr},${c + dc}`; if (grid[r + dr]?.[c + dc] && grid[r + dr][c + dc] !== '#' && !seen.has(k)) { seen.add(k); q.push([r + dr, c + dc, d + 1]); } } }
console.log('steps', steps); console.log(grid.map(r => r.join('')).join('\n'));
