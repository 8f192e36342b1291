class Node { constructor(value, next = null) { this.value = value; this.next = next; } }
class LinkedList {
  constructor(iterable = []) { this.head = null; this.size = 0; for (const x of iterable) this.push(x); }
  push(value) { const n = new Node(value); if (!this.head) this.head = n; else { let c = this.head; while (c.next) c = c.next; c.next = n; } this.size++; return this; }
  reverse() { let prev = null, cur = this.head; while (cur) [cur.next, prev, cur] = [prev, cur, cur.next]; this.head = prev; return this; }
  *[Symbol.iterator]() { for (let c = this.head; c; c = c.next) yield c.value; }
}
const list = new LinkedList([1, 2, 3, 4]);
console.log(list);
console.log([...list], [...list.reverse()], Math.max(...list));
console.log(list.head);
class Stack { #items = []; push(x) { this.#items.push(x); return this; } pop() { return this.#items.pop(); } get size() { return this.#items.length; } peek() { return this.#items.at(-1); } }
const st = new Stack().push(1).push(2);
console.log(st, st.size, st.pop(), st.peek(), st.size);
class PriorityQueue { constructor(cmp) { this.heap = []; this.cmp = cmp; } add(x) { this.heap.push(x); this.heap.sort(this.cmp); } next() { return this.heap.shift(); } }
const pq = new PriorityQueue((a, b) => a.p - b.p);
for (const [n, p] of [['low', 9], ['high', 1], ['mid', 5]]) pq.add({ n, p });
console.log(pq, pq.next(), pq.heap.length);
const [a, , b = 'dflt', ...rest] = list; console.log(a, b, rest);
