/** Receives the parser; the function it returns makes of a cell's code what node is to compile. */
function cellRewriter(parse) {
  const OPTIONS = {
    ecmaVersion: 'latest',
    sourceType: 'script',
    allowAwaitOutsideFunction: true,
    allowHashBang: true,
  };
  const NEEDS_PARSING = /\b(?:let|const|class|await)\b/;
  const LINE_END = /\r\n|[\n\r\u2028\u2029]/g;

  /**
   * `program` is the text to run, `isAsync` says that it evaluates to an async function to call, `declarations` is a text
   * to run before it. Every position keeps its line; `moved` has, by line, what stands before its column and how wide it is.
   */
  return function rewrite(code) {
    if (!NEEDS_PARSING.test(code)) return { program: code, isAsync: false, moved: undefined };
    const tree = parse(code, OPTIONS);
    const edits = [];
    const isAsync = contains(tree, ({ type, await: waits }) => type === 'AwaitExpression' || waits === true);
    if (!isAsync) {
      for (const statement of tree.body) declareVar(statement, code, edits);
      return { ...edited(code, edits), isAsync };
    }
    return { ...asyncProgram(tree, code, edits), isAsync };
  };

  function edited(code, edits) {
    edits.sort((a, b) => a.at - b.at);
    let program = '';
    let from = 0;
    for (const { at, length, text } of edits) {
      program += code.slice(from, at) + text;
      from = at + length;
    }
    return { program: program + code.slice(from), moved: moves(code, edits) };
  }

  function moves(code, edits) {
    let moved;
    const ends = code.matchAll(LINE_END);
    let next = ends.next();
    let line = 1;
    let start = 0;
    let widened = 0;
    for (const { at, length, text } of edits) {
      for (; !next.done && next.value.index < at; next = ends.next()) {
        start = next.value.index + next.value[0].length;
        line++;
        widened = 0;
      }
      const width = text.length - length;
      if (width === 0) continue;
      moved ??= new Map();
      if (!moved.has(line)) moved.set(line, []);
      moved.get(line).push({ column: at - start + 1 + widened, width });
      widened += width;
    }
    return moved;
  }

  function insert(edits, at, text) {
    edits.push({ at, length: 0, text });
  }

  function replace(edits, at, length, text) {
    edits.push({ at, length, text: text.padEnd(length) });
  }

  function endStatement(edits, node, code) {
    if (code[node.end - 1] !== ';') insert(edits, node.end, ';');
  }

  /** `let x` alone makes a fresh variable, `var x` alone keeps the old value. */
  function setFresh(edits, node, code) {
    if (node.kind !== 'let') return;
    let any = false;
    for (const { id, init } of node.declarations) {
      if (init) continue;
      insert(edits, id.end, '=void 0');
      any = true;
    }
    if (any) endStatement(edits, node, code);
  }

  function declareVar(statement, code, edits) {
    if (statement.type === 'ClassDeclaration') {
      insert(edits, statement.start, `var ${statement.id.name}=`);
      insert(edits, statement.end, ';');
    } else if (statement.type === 'VariableDeclaration' && statement.kind !== 'var') {
      replace(edits, statement.start, statement.kind.length, 'var');
      setFresh(edits, statement, code);
    }
  }

  // --- cells that wait -------------------------------------------------------------------------------------------------

  // The code becomes the body of an async function, so what it declares has to be declared outside: functions by a text of
  // their own in which all else is blank, variables by name, and their declarations become assignments.
  function asyncProgram(tree, code, edits) {
    const names = new Set();
    const functions = [];
    const value = unused('cellValue', code);
    for (const statement of tree.body) {
      if (statement.type === 'FunctionDeclaration') functions.push(statement);
      else if (statement.type === 'ClassDeclaration') {
        names.add(statement.id.name);
        insert(edits, statement.start, `;${statement.id.name}=`);
        insert(edits, statement.end, ';');
      }
    }
    visit(tree, undefined, undefined, (node, parent, key) => {
      if (node.type !== 'VariableDeclaration') return;
      if (node.kind === 'var' || parent === tree) assignInstead(node, parent, key, names, code, edits);
    });
    for (const { start, end } of functions) replace(edits, start, end - start, blank(code.slice(start, end)));
    keepValue(tree.body, value, edits);
    if (code.startsWith('#!')) replace(edits, 0, 2, '//');

    const kept = tree.body.filter((statement) => statement.directive !== undefined).concat(functions);
    let declarations = '';
    let from = 0;
    for (const { start, end } of kept) {
      declarations += blank(code.slice(from, start)) + code.slice(start, end);
      from = end;
    }
    if (names.size > 0) declarations += `\n;var ${[...names].join(',')}`;
    const { program, moved } = edited(code, edits);
    return {
      program: `(async(${value})=>{\n${program}\n;return{__proto__:null,value:${value}}})`,
      declarations,
      moved,
    };
  }

  function assignInstead(node, parent, key, names, code, edits) {
    const inList = Array.isArray(parent[key]);
    const isEach = parent.type === 'ForInStatement' || parent.type === 'ForOfStatement';
    const isHead = (isEach && key === 'left') || (parent.type === 'ForStatement' && key === 'init');
    // What stands before may lack its semicolon.
    replace(edits, node.start, node.kind.length, inList ? ';' : '');
    for (const { id, init, end } of node.declarations) {
      collectNames(id, names);
      if (id.type === 'Identifier' || isEach) continue;
      insert(edits, id.start, '(');
      if (init) insert(edits, end, ')');
    }
    if (isHead) return;
    setFresh(edits, node, code);
    if (node.kind !== 'let' || node.declarations.every(({ init }) => init)) endStatement(edits, node, code);
  }

  function collectNames(pattern, names) {
    if (pattern === null) return;
    if (pattern.type === 'Identifier') names.add(pattern.name);
    else if (pattern.type === 'ObjectPattern') {
      for (const property of pattern.properties) collectNames(property.value ?? property.argument, names);
    } else if (pattern.type === 'ArrayPattern') for (const element of pattern.elements) collectNames(element, names);
    else collectNames(pattern.left ?? pattern.argument, names);
  }

  /** Stores what may become the value of the program; says whether the statements have a value at all. */
  function keepValue(statements, value, edits) {
    for (let i = statements.length - 1; i >= 0; i--) if (keepValueOf(statements[i], value, edits)) return true;
    return false;
  }

  function keepValueOf(node, value, edits) {
    if (!node) return false;
    const inside = (...nodes) => {
      for (const each of nodes) keepValueOf(each, value, edits);
      return true;
    };
    switch (node.type) {
      case 'ExpressionStatement': {
        if (node.directive !== undefined) return true;
        // The comma: a function or class is not to be named after the variable.
        insert(edits, node.expression.start, `${value}=(0,`);
        insert(edits, node.expression.end, ')');
        return true;
      }
      case 'BlockStatement':
        return keepValue(node.body, value, edits);
      case 'LabeledStatement':
        return keepValueOf(node.body, value, edits);
      case 'IfStatement':
        return inside(node.consequent, node.alternate);
      case 'TryStatement':
        return inside(node.block, node.handler?.body);
      case 'SwitchStatement':
        for (const { consequent } of node.cases) keepValue(consequent, value, edits);
        return true;
      case 'ForStatement':
      case 'ForInStatement':
      case 'ForOfStatement':
      case 'WhileStatement':
      case 'DoWhileStatement':
      case 'WithStatement':
        return inside(node.body);
      default:
        return false;
    }
  }

  // --- the tree --------------------------------------------------------------------------------------------------------

  /** Visits everything but the inside of functions. */
  function visit(node, parent, key, visitor) {
    visitor(node, parent, key);
    if (/Function/.test(node.type)) return;
    for (const inner of Object.keys(node)) {
      const child = node[inner];
      if (Array.isArray(child)) {
        for (const each of child) if (each && typeof each.type === 'string') visit(each, node, inner, visitor);
      } else if (child && typeof child.type === 'string') visit(child, node, inner, visitor);
    }
  }

  function contains(tree, wanted) {
    let found = false;
    visit(tree, undefined, undefined, (node) => {
      found ||= wanted(node);
    });
    return found;
  }

  function blank(text) {
    return text.replace(/[^\n\r\u2028\u2029]/g, ' ');
  }

  function unused(name, code) {
    while (code.includes(name)) name += '_';
    return name;
  }
}
