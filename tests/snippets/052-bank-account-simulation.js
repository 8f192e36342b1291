class InsufficientFunds extends Error {
  constructor(balance, amount) { super(`Insufficient funds: balance ${balance}, requested ${amount}`); this.name = this.constructor.name; this.balance = balance; this.amount = amount; }
}
class Account {
  static #next = 1000;
  #balance = 0;
  transactions = [];
  constructor(owner, opening = 0) { this.owner = owner; this.number = Account.#next++; if (opening) this.deposit(opening); }
  get balance() { return this.#balance / 100; }
  deposit(amt) { if (!(amt > 0)) throw new TypeError(`Invalid amount: ${amt}`); this.#balance += Math.round(amt * 100); this.#log('deposit', amt); return this; }
  withdraw(amt) { const c = Math.round(amt * 100); if (c > this.#balance) throw new InsufficientFunds(this.balance, amt); this.#balance -= c; this.#log('withdraw', amt); return this; }
  #log(type, amount) { this.transactions.push({ type, amount, balance: this.balance }); }
  static transfer(from, to, amt) { from.withdraw(amt); to.deposit(amt); }
  toJSON() { return { owner: this.owner, number: this.number, balance: this.balance.toFixed(2) }; }
}
const a = new Account('Ann', 100.1), b = new Account('Ben');
Account.transfer(a, b, 30.2); b.withdraw(0.1).deposit(0.2);
for (const f of [() => a.withdraw(1000), () => b.deposit(-5), () => b.deposit('abc'), () => Account.transfer(b, a, 99)]) { try { f(); } catch (e) { console.log(e.name, '|', e.message, '|', e instanceof InsufficientFunds); console.log(Object.entries(e)); } }
console.log(a, b); console.log(JSON.stringify([a, b], null, 2)); console.log(a.balance + b.balance, '#balance' in a, Object.keys(a)); console.table(b.transactions);
try { eval('a.#balance'); } catch (e) { console.log(e.name, e.message); }
