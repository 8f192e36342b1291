const csv = `id,product,region,qty,price
1,"Widget, large",EU,10,2.50
2,Gadget,US,3,19.99
3,"Say ""hi"" mug",EU,7,8.00
4,Gadget,EU,1,19.99
5,"Widget, large",US,22,2.45
`;

function parseCsv(text) {
  const rows = [];
  let row = [], field = '', quoted = false;
  for (let i = 0; i < text.length; i++) {
    const ch = text[i];
    if (quoted) {
      if (ch === '"' && text[i + 1] === '"') { field += '"'; i++; }
      else if (ch === '"') quoted = false;
      else field += ch;
    } else if (ch === '"') quoted = true;
    else if (ch === ',') { row.push(field); field = ''; }
    else if (ch === '\n') { row.push(field); rows.push(row); row = []; field = ''; }
    else field += ch;
  }
  const [header, ...body] = rows;
  return body.map(r => Object.fromEntries(header.map((h, i) => [h, r[i]])));
}

const records = parseCsv(csv).map(r => ({ ...r, id: Number(r.id), qty: +r.qty, price: parseFloat(r.price) }));
console.log(records);
const byRegion = Object.groupBy(records, r => r.region);
console.log(Object.keys(byRegion), byRegion.EU.length);
console.table(records.map(({ product, qty, price }) => ({ product, qty, total: +(qty * price).toFixed(2) })));
