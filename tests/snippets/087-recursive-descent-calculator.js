class Parser {
  constructor(src) { this.tokens = [...src.matchAll(/\s*(?:(\d+\.?\d*|\.\d+)|(\*\*|[-+*/%^()!,])|([a-z]\w*))/gi)].map(([, num, op, id]) => num !== undefined ? { t: 'num', v: +num } : op ? { t: 'op', v: op } : { t: 'id', v: id }); this.i = 0; }
  peek(v) { return this.tokens[this.i]?.v === v; }
  eat(v) { if (v !== undefined && !this.peek(v)) throw new SyntaxError(`Expected "${v}" but got ${this.tokens[this.i] ? `"${this.tokens[this.i].v}"` : 'end of input'}`); return this.tokens[this.i++]; }
  parse() { const v = this.expr(); if (this.i < this.tokens.length) throw new SyntaxError(`Unexpected "${this.tokens[this.i].v}"`); return v; }
  expr() { let v = this.term(); while (this.peek('+') || this.peek('-')) v = this.eat().v === '+' ? v + this.term() : v - this.term(); return v; }
  term() { let v = this.unary(); while (this.peek('*') || this.peek('/') || this.peek('%')) { const op = this.eat().v, r = this.unary(); if (op === '/' && r === 0) throw new RangeError('Division by zero'); v = op === '*' ? v * r : op === '/' ? v / r : v % r; } return v; }
  unary() { if (this.peek('-')) { this.eat(); return -this.unary(); } return this.power(); }
  power() { const b = this.atom(); if (this.peek('^') || this.peek('**')) { this.eat(); return b ** this.unary(); } if (this.peek('!')) { this.eat(); let f = 1; for (let k = 2; k <= b; k++) f *= k; return f; } return b; }
  atom() { const tok = this.eat(); if (!tok) throw new SyntaxError('Unexpected end of input'); if (tok.t === 'num') return tok.v; if (tok.t === 'id') { if (!this.peek('(')) { const c = { pi: Math.PI, e: Math.E }[tok.v]; if (c === undefined) throw new ReferenceError(`${tok.v} is not defined`); return c; } this.eat('('); const args = []; if (!this.peek(')')) do args.push(this.expr()); while (this.peek(',') && this.eat()); this.eat(')'); if (typeof Math[tok.v] !== 'function') throw new TypeError(`${tok.v} is not a function`); return Math[tok.v](...args); } if (tok.v === '(') { const v = this.expr(); this.eat(')'); return v; } throw new SyntaxError(`Unexpected "${tok.v}"`); }
}
for (const s of ['1 + 2 * 3', '-(4 - 6) ^ 3', '2 ** 3 ** 2', 'sqrt(16) + max(1, 5, 3)', '5!', '2 * pi', '7 % 4 / 2', '1 / 0', '(1 + 2', '1 2', 'foo(1)', 'x', '', '3 * * 4', '1.5.2', 'sin(0) + cos(0)', '10 / 4 - 0.1 * 3']) {
  try { console.log(s.padEnd(24), '=', new Parser(s).parse()); } catch (e) { console.log(s.padEnd(24), '!', `${e}`); }
}
