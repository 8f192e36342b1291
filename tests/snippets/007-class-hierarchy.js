class Shape {
  static count = 0;
  #id;
  constructor(name) { this.name = name; this.#id = ++Shape.count; }
  get id() { return this.#id; }
  area() { throw new Error(`${this.constructor.name} must implement area()`); }
  toString() { return `${this.name}#${this.#id} area=${this.area().toFixed(2)}`; }
  static compare(x, y) { return x.area() - y.area(); }
}
class Circle extends Shape {
  constructor(r) { super('circle'); this.r = r; }
  area() { return Math.PI * this.r ** 2; }
}
class Rect extends Shape {
  constructor(w, h) { super('rect'); Object.assign(this, { w, h }); }
  area() { return this.w * this.h; }
}
class Square extends Rect {
  constructor(s) { super(s, s); this.name = 'square'; }
  get [Symbol.toStringTag]() { return 'Sq'; }
}
const shapes = [new Circle(1.5), new Rect(2, 3), new Square(2)];
console.log(shapes);
shapes.sort(Shape.compare).forEach(s => console.log(String(s), s.id));
console.log(`${shapes[0]}`, shapes[0] instanceof Rect, Shape.count);
try { new Shape('blob').toString(); } catch (e) { console.log(e.message); }
console.log(Circle, Shape, [Square], Object.getPrototypeOf(Square) === Rect);
console.log(Object.prototype.toString.call(shapes[0]), Object.keys(new Square(1)));
