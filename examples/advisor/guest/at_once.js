// The same question. The list says already which ship lies where.
const berths = await port.get("/berths");
console.log(`${berths.filter(({ ship }) => ship === "").length} berths are free`);
