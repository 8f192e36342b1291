const Role = Object.freeze({ VIEWER: 'viewer', EDITOR: 'editor', ADMIN: 'admin', [Symbol.iterator]: function* () { yield this.VIEWER; yield this.EDITOR; yield this.ADMIN; } });
const grants = { viewer: ['read'], editor: ['read', 'write'], admin: ['read', 'write', 'delete', 'grant'] };
const can = (user, action) => (grants[user.role] ?? []).includes(action) && !user.suspended;
const users = [{ name: 'v', role: Role.VIEWER }, { name: 'e', role: Role.EDITOR }, { name: 'a', role: Role.ADMIN, suspended: true }, { name: 'x', role: 'ghost' }];
console.table(users.map((u) => ({ name: u.name, ...Object.fromEntries(grants.admin.map((g) => [g, can(u, g)])) })));
console.log([...Role], Role, Object.keys(Role));
try { 'use strict'; Role.NEW = 1; console.log('ignored', Role.NEW); } catch (e) { console.log(e.message); }
const enumOf = (...names) => Object.freeze(names.reduce((o, n, i) => { o[o[n] = i] = n; return o; }, {}));
const Color = enumOf('Red', 'Green', 'Blue'); console.log(Color, Color[Color.Green], Color.Blue);
const guard = (action) => (target) => (...args) => { const [user] = args; if (!can(user, action)) throw Object.assign(new Error(`${user.name} may not ${action}`), { status: 403 }); return target(...args); };
const remove = guard('delete')((user, id) => `${user.name} removed ${id}`);
for (const u of [...users, { name: 'root', role: 'admin' }]) try { console.log(remove(u, 7)); } catch (e) { console.log(e.status, e.message); }
