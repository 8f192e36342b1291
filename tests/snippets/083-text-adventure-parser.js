const world = {
  hall: { desc: 'A dusty hall.', exits: { north: 'library', east: 'kitchen' }, items: ['lamp'] },
  library: { desc: 'Shelves everywhere.', exits: { south: 'hall' }, items: ['book', 'scroll'] },
  kitchen: { desc: 'Smells of soup.', exits: { west: 'hall' }, items: [] },
};
const player = { at: 'hall', bag: [] };
const commands = {
  look() { const r = world[player.at]; return `${r.desc} Exits: ${Object.keys(r.exits).join(', ')}.${r.items.length ? ` You see: ${r.items.join(', ')}.` : ''}`; },
  go(dir) { const to = world[player.at].exits[dir]; if (!to) throw new Error(`You can't go ${dir || 'nowhere'}.`); player.at = to; return this.look(); },
  take(item) { const { items } = world[player.at]; const i = items.indexOf(item); if (i < 0) throw new Error(`No ${item} here.`); player.bag.push(...items.splice(i, 1)); return `Taken: ${item}`; },
  inventory: () => player.bag.length ? `Carrying ${new Intl.ListFormat('en').format(player.bag)}` : 'Empty-handed',
};
for (const line of ['look', 'take lamp', 'go up', 'go north', 'take sword', 'take book', 'take scroll', 'inventory', 'dance wildly']) {
  const [verb, ...rest] = line.split(' ');
  try { console.log(`> ${line}\n${commands[verb](rest.join(' '))}`); } catch (e) { console.log(`> ${line}\n! ${e.message}`); }
}
console.log(player, world);
