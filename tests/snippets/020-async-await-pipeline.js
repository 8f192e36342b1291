const sleep = (ms, v) => new Promise(r => setTimeout(r, ms, v));
async function fetchUser(id) {
  await sleep(10);
  if (id === 3) throw new Error(`user ${id} not found`);
  return { id, name: `User${id}` };
}
async function main() {
  console.log('start');
  const users = await Promise.all([1, 2].map(fetchUser));
  console.log(users);
  const settled = await Promise.allSettled([1, 3].map(fetchUser));
  console.log(settled.map(s => s.status === 'fulfilled' ? s.value.name : s.reason.message));
  console.log(await Promise.race([sleep(20, 'slow'), sleep(5, 'fast')]));
  console.log(await Promise.any([Promise.reject(new Error('x')), sleep(1, 'any')]));
  try { await Promise.any([Promise.reject(1), Promise.reject(2)]); } catch (e) { console.log(e.constructor.name, e.message, e.errors); }
  try { await fetchUser(3); } catch (e) { console.log('caught', e.message); } finally { console.log('finally'); }
  for await (const x of (async function* () { for (let i = 0; i < 3; i++) { await sleep(1); yield i * i; } })()) console.log('got', x);
  const results = [];
  for (const id of [1, 2]) results.push((await fetchUser(id)).name);
  console.log(results.join(','));
  return 'done';
}
main().then(console.log).catch(console.error);
console.log('after main');
