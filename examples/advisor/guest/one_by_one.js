// How many berths are free? Asked the way a first draft asks: the list, and then every berth by itself.
let free = 0;
for (const { berth } of await port.get("/berths")) {
  const { ship } = await port.get(`/berths/${berth}`);
  if (ship === "") free += 1;
}
console.log(`${free} berths are free`);
