'use strict';
// The node process that keeps the variables of JavaScript cells. PID 1 starts it as `node -e <this text>` and talks to it on
// descriptors 3 and 4; every frame is a kind, the length of its body in four bytes, and the body.
//
//   to PID 1    r  ready for a cell                     from PID 1   !  the bell, one byte: a cell is coming
//               b  the bell was heard, nothing of the                c  nonce of 32 characters, code
//                  guest runs until the code is here
//               d  nonce and one character: 0 ran, 1 raised, 3 nothing      .  one byte: everything that the cell wrote has
//                  is left that could end its `await`; nothing of the          been taken
//                  guest runs until PID 1 answers
//
// Between cells the event loop runs and the bell keeps it alive; while a cell runs the bell does not, so that node itself
// notices an `await` that nothing can end. PID 1 may ring without the `.`; then nothing runs between the two cells.
//
// Cells share one global scope with whatever they overwrite in it. So the kernel lives in a realm of its own, whose
// intrinsics no cell can reach, and takes from the main realm only what is named below, before the first cell. The parser,
// acorn as node carries it, lives there too. What starts a cell is made of built-in functions alone: a stack that a cell
// looks at ends in `Object.assign` and frames of node.
//
// `node -e` defines and wraps more for a text that names node's module of ciphers; this one does not.
(() => {
  const vm = require('node:vm');
  const util = require('node:util');
  const { EventEmitter } = require('node:events');

  furnish();

  const realm = vm.createContext(vm.constants.DONT_CONTEXTIFY);
  const inRealm = (source, filename) => new vm.Script(source, { filename }).runInContext(realm);
  const rewriter = inRealm(`(${cellRewriter})`, 'plimsoll:cells');
  inRealm(`(${cellKernel})`, 'plimsoll:cells')({
    global: globalThis,
    process,
    fs: require('node:fs'),
    Socket: require('node:net').Socket,
    stdout: streamControl(process.stdout),
    stderr: streamControl(process.stderr),
    Script: vm.Script,
    defaultLoader: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    inspect: util.inspect,
    isPromise: util.types.isPromise,
    isNativeError: util.types.isNativeError,
    getCallSites: util.getCallSites,
    fileURLToPath: require('node:url').fileURLToPath,
    Error,
    Object,
    assign: Object.assign,
    bind: Function.prototype.bind,
    then: Promise.prototype.then,
    isErrorOf: Function.prototype[Symbol.hasInstance],
    latin1Slice: Buffer.prototype.latin1Slice,
    utf8Slice: Buffer.prototype.utf8Slice,
    allocate: Buffer.allocUnsafeSlow,
    listenerCount: EventEmitter.prototype.listenerCount,
    setImmediate,
    setTimeout,
    rewriter: () => {
      const acorn = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
      const exports = {};
      inRealm(`(function (exports, module) {${acorn}\n})`, 'plimsoll:parser')(exports, { exports });
      return rewriter(exports.parse);
    },
  });

  /** What a cell finds is what a program of node finds. */
  function furnish() {
    const { defineProperty, getOwnPropertyDescriptor } = Reflect;
    const Module = require('node:module');

    // A fork of this process starts without the kernel.
    process.execArgv.length = 0;
    delete process._eval;

    // Not every global variable is looked at: that would load what stands behind it.
    for (const name of [...Module.builtinModules, 'navigator']) {
      const found = getOwnPropertyDescriptor(globalThis, name);
      if (!found?.get || name === 'process') continue;
      // `node -e` has every module as a global variable; a program has none.
      if (!found.enumerable) delete globalThis[name];
      // A declaration at the top level becomes `var`, which an accessor without a setter would swallow.
      else if (!found.set) {
        const set = (value) => {
          defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
        };
        defineProperty(globalThis, name, { ...found, set });
      }
    }

    try {
      // Where a file may be written for the caller without further ado.
      require('node:fs').mkdirSync('artifacts');
    } catch {}

    const directory = process.cwd();
    const filename = `${directory === '/' ? '' : directory}/cell.js`;
    const module = new Module(filename);
    Object.assign(module, { id: '.', filename, paths: Module._nodeModulePaths(directory) });
    process.mainModule = module;
    process.argv[1] = filename;
    const fixtures = {
      require: Module.createRequire(filename),
      module,
      exports: module.exports,
      __filename: filename,
      __dirname: directory,
    };
    // Later: at the end of this text node restores the `module` that there was before.
    process.nextTick(() => {
      for (const [name, value] of Object.entries(fixtures)) {
        defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
      }
    });
  }

  /** What is needed of a standard stream, taken before a cell can replace it. */
  function streamControl({ _handle: handle }) {
    const { setBlocking } = handle ?? {};
    if (typeof setBlocking !== 'function') return undefined;
    let owner = handle;
    while (!Object.hasOwn(owner, 'writeQueueSize')) owner = Object.getPrototypeOf(owner);
    return { handle, setBlocking, queued: Reflect.getOwnPropertyDescriptor(owner, 'writeQueueSize').get };
  }

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

  function cellKernel(main) {
    const { global, process, inspect, isPromise, setImmediate, Script } = main;
    const { openSync, closeSync, readSync, readFileSync, writeSync, constants } = main.fs;
    const { nextTick, reallyExit, _tickCallback: drainTicks, _fatalException: fatalOfNode } = process;
    const { hasUncaughtExceptionCaptureCallback: isCaptured } = process;
    const { runInThisContext } = Script.prototype;
    const { apply, defineProperty } = Reflect;
    const call = (method, receiver, ...args) => apply(method, receiver, args);

    const NONCE_LENGTH = 32;
    const HEADER_LENGTH = 5;
    const BELL = 33;
    const RAN = '0';
    const RAISED = '1';
    const STUCK = '3';
    const SHOWN = { __proto__: null, depth: 4, maxArrayLength: 100, maxStringLength: 10000 };
    // A line that long is generated code; it would bury the message.
    const EXCERPT_LENGTH = 400;
    // Of older cells, positions that rewriting moved are told as they are.
    const CELLS_REMEMBERED = 1000;
    const WARM_UP_MS = 20;

    // --- to and from PID 1 -----------------------------------------------------------------------------------------------

    // Opened anew they are closed on exec; and one for waiting, which makes its own non-blocking, and one for reading.
    const waitingEnd = openSync('/proc/self/fd/3', constants.O_RDONLY);
    const readingEnd = openSync('/proc/self/fd/3', constants.O_RDONLY);
    const writingEnd = openSync('/proc/self/fd/4', constants.O_WRONLY);
    closeSync(3);
    closeSync(4);

    function leave() {
      call(reallyExit, process, 0);
    }

    // Text and not bytes: it has no property that a cell could have redefined.
    function tell(kind, body) {
      try {
        writeSync(writingEnd, `${kind}\0\0\0${String.fromCharCode(body.length)}${body}`, null, 'latin1');
      } catch {
        leave();
      }
    }

    function read(length) {
      const bytes = main.allocate(length);
      // node asks for it, and a cell may have redefined it for all of them.
      defineProperty(bytes, 'byteLength', { value: length });
      for (let at = 0; at < length; ) {
        let count = 0;
        try {
          count = readSync(readingEnd, bytes, at, length - at, null);
        } catch {}
        if (count === 0) leave();
        at += count;
      }
      return bytes;
    }

    function readCell() {
      const header = read(HEADER_LENGTH);
      const length = ((header[1] * 256 + header[2]) * 256 + header[3]) * 256 + header[4];
      const body = read(length);
      return {
        nonce: call(main.latin1Slice, body, 0, NONCE_LENGTH),
        code: call(main.utf8Slice, body, NONCE_LENGTH, length),
      };
    }

    const bell = new main.Socket({ fd: waitingEnd, manualStart: true })._handle;
    const { ref: keepAlive, unref: letDie } = bell;
    // In place of the stream's own: called by node itself, past all that a cell can redefine.
    bell.onread = (bytes) => {
      if (bytes === undefined) leave();
      ring();
    };

    function ring() {
      call(letDie, bell);
      tell('b', '');
      begin(readCell());
    }

    // --- output ----------------------------------------------------------------------------------------------------------

    // Once blocking, a stream has nothing left to write when a write returns, and `fs.writeSync` never meets EAGAIN.
    const streams = [stream(main.stdout), stream(main.stderr)];
    for (const stream of streams) stream.block();

    function stream(control) {
      if (control === undefined) return { block() {}, isBehind: () => false };
      const { handle, setBlocking, queued } = control;
      return { block: () => call(setBlocking, handle, true), isBehind: () => call(queued, handle) > 0 };
    }

    function print(descriptor, text) {
      try {
        // A cell that opened the descriptor once more has made it non-blocking.
        streams[descriptor - 1].block();
        writeSync(descriptor, text);
      } catch {}
    }

    // --- a cell ----------------------------------------------------------------------------------------------------------

    let count = 0;
    // The one that has begun and not ended.
    let cell;
    // Its own code is on the stack: what nobody catches now is thrown by it.
    let running = false;

    function begin({ nonce, code }) {
      const mine = {
        nonce,
        code,
        name: `cell${++count}.js`,
        isAsync: false,
        waits: false,
        status: undefined,
        value: undefined,
      };
      cell = mine;
      const body = compile(mine);
      if (body === undefined) {
        setImmediate(() => finish(mine));
        return;
      }
      if (code.includes('import')) silenceLoader();
      launch(body, (value) => {
        if (mine.status !== undefined) return;
        if (mine.isAsync) wait(mine, value, true, (result) => settle(mine, result.value));
        else settle(mine, value);
      });
      // Once everything that the cell left to do at once has been done. A timer that is due comes later.
      setImmediate(() => {
        if (mine.status !== undefined && !mine.waits) soon(conclude, mine);
      });
    }

    /** Has the event loop call `body` with nothing of the kernel on the stack, and `receive` with what it returned. */
    function launch(body, receive) {
      const source = {
        get begins() {
          running = true;
        },
      };
      defineProperty(source, 'value', { get: body, enumerable: true });
      const target = {
        set begins(_) {},
        set value(value) {
          running = false;
          receive(value);
        },
      };
      setImmediate(call(main.bind, main.assign, main.Object, target, source));
    }

    function settle(mine, value) {
      if (mine.status !== undefined) return;
      if (isPromise(value)) wait(mine, value, false, (result) => ran(mine, result));
      else ran(mine, value);
    }

    function wait(mine, promise, isOwn, fulfilled) {
      const rejected = (error) => {
        // After its end the cell's code is one more callback.
        if (mine.status !== undefined) return report(error);
        raised(mine, error);
        soon(conclude, mine);
      };
      mine.waits = true;
      try {
        // Which a cell may have redefined for all promises; this one is the kernel's own.
        if (isOwn) defineProperty(promise, 'constructor', { value: undefined });
        call(main.then, promise, fulfilled, rejected);
      } catch (error) {
        rejected(error);
      }
    }

    function ran(mine, value) {
      if (mine.status !== undefined) return;
      mine.status = RAN;
      mine.value = value;
      if (mine.waits) soon(conclude, mine);
    }

    function raised(mine, error) {
      mine.status = RAISED;
      report(error);
    }

    /** When all jobs that are queued have been done. */
    function soon(task, mine) {
      // Which would make node drop the task.
      if (process._exiting) setImmediate(() => task(mine));
      else nextTick(task, mine);
    }

    function conclude(mine) {
      if (mine !== cell) return;
      for (;;) {
        try {
          // Callbacks and rejections that came with the end are the cell's still.
          drainTicks();
          break;
        } catch (error) {
          apply(process._fatalException, process, [error, false]);
        }
      }
      finish(mine);
    }

    function finish(mine) {
      if (mine !== cell) return;
      for (let i = 0; i < streams.length; i++) {
        if (!streams[i].isBehind()) continue;
        streams[i].block();
        setImmediate(() => finish(mine));
        return;
      }
      if (mine.status === RAN && mine.value !== undefined) show(mine);
      cell = undefined;
      tell('d', mine.nonce + mine.status);
      if (read(1)[0] === BELL) ring();
      else call(keepAlive, bell);
    }

    function show(mine) {
      try {
        Reflect.set(global, '_', mine.value);
      } catch {}
      try {
        print(1, `${inspect(mine.value, SHOWN)}\n`);
      } catch (error) {
        raised(mine, error);
      }
    }

    // --- compiling -------------------------------------------------------------------------------------------------------

    let rewrite;
    const moved = new Map();

    /** A function of no parameters that runs the cell; nothing after a text that cannot be compiled was reported. */
    function compile(mine) {
      const options = { __proto__: null, displayErrors: false };
      let parts = { program: mine.code, isAsync: false };
      let isParsed = true;
      try {
        rewrite ??= main.rewriter();
        parts = rewrite(mine.code);
      } catch {
        // node words it.
        isParsed = false;
      }
      try {
        const declarations = parts.declarations === undefined ? undefined : script(mine, parts.declarations);
        const program = script(mine, parts.program, parts.isAsync);
        if (parts.moved !== undefined) moved.set(mine.name, parts.moved);
        moved.delete(`cell${count - CELLS_REMEMBERED}.js`);
        mine.isAsync = parts.isAsync;
        if (!parts.isAsync) return call(main.bind, runInThisContext, program, options);
        try {
          call(runInThisContext, declarations, options);
          // Bound, so that the stack does not show what it hangs on.
          return call(main.bind, call(runInThisContext, program, options));
        } catch (error) {
          raised(mine, error);
        }
      } catch (error) {
        mine.status = RAISED;
        print(2, `${wording(mine, error, isParsed)}\n`);
      }
      return undefined;
    }

    function script(mine, text, isWrapped = false) {
      return new Script(text, {
        __proto__: null,
        filename: mine.name,
        lineOffset: isWrapped ? -1 : 0,
        importModuleDynamically: main.defaultLoader,
      });
    }

    function wording(mine, error, isParsed) {
      const text = syntaxError(error);
      try {
        if (isParsed) {
          // Of the text as it was written.
          script(mine, mine.code);
          return text;
        }
        if (!/\bawait\b/.test(mine.code)) return text;
        // As a script, code that waits fails at its first `await`.
        script(mine, `(async()=>{\n${mine.code}\n})`, true);
        return text;
      } catch (again) {
        const better = syntaxError(again);
        const lines = mine.code.split('\n').length;
        if (Number(/^cell\d+\.js:(\d+)\n/.exec(better)?.[1]) <= lines) return better;
        return isParsed ? better : `${mine.name}:${lines}\n\nSyntaxError: Unexpected end of input`;
      }
    }

    /** The place, the line and the message, as node puts them before the stack. */
    function syntaxError(error) {
      try {
        const text = String(error.stack).split('\n    at ', 1)[0];
        const [, line, message] = /^cell\d+\.js:\d+\n([^\n]*)\n *\^+\n\n([^]*)$/.exec(text) ?? [];
        return line?.length > EXCERPT_LENGTH ? message : text;
      } catch {
        return 'SyntaxError';
      }
    }

    let isSilenced = false;

    /** The first `import()` of a script makes node warn that scripts which may do so are an experiment. */
    function silenceLoader() {
      if (isSilenced) return;
      isSilenced = true;
      const { emitWarning } = process;
      try {
        process.emitWarning = () => {};
        call(runInThisContext, script({ name: 'plimsoll:import' }, 'import("node:process")'));
      } catch {}
      try {
        process.emitWarning = emitWarning;
      } catch {}
    }

    // --- errors ----------------------------------------------------------------------------------------------------------

    // What a stack shows of the event loop, and of its call of a cell.
    const LOOP = /\n +at [^\n]*\(node:internal\/(?:timers|process\/task_queues):[^\n]*/g;
    const LAUNCH = /(?:\n +at Script\.runInThisContext \(node:vm:\d+:\d+\))?(?:\n +at Function\.assign \(<anonymous>\))?$/;
    const KERNEL = /\n +at [^\n]*plimsoll:cells[^]*$/;
    const PLACE = /(cell\d+\.js):(\d+):(\d+)(?=\)?(?:,| \{)?$)/;
    const FRAME = /^ +at (?:.* \()?((?:file:\/\/)?\/.*|cell\d+\.js):(\d+):(\d+)\)?$/;

    function report(error) {
      print(2, `${describe(error)}\n`);
    }

    function describe(error) {
      try {
        if (!isError(error)) return `Uncaught ${inspect(error)}`;
        cutStacks(error, new Set());
        return excerpt(error) + inspect(error).split('\n').map(placed).join('\n');
      } catch {}
      try {
        return `${error.name}: ${error.message}`;
      } catch {
        return 'Uncaught error that cannot be shown';
      }
    }

    function isError(value) {
      return main.isNativeError(value) || call(main.isErrorOf, main.Error, value);
    }

    /** Ends the stacks of an error, and of those it carries, where the cell ends. */
    function cutStacks(error, seen) {
      if (seen.size > 100 || !main.isNativeError(error) || seen.has(error)) return;
      seen.add(error);
      const { stack, cause, errors } = error;
      if (typeof stack === 'string') {
        const cut = stack.replace(KERNEL, '').replace(LOOP, '').replace(LAUNCH, '');
        if (cut !== stack) error.stack = cut;
      }
      cutStacks(cause, seen);
      for (let i = 0; i < Math.min(errors?.length ?? 0, 100); i++) cutStacks(errors[i], seen);
    }

    /** Where it was thrown: file and line, the line itself and a mark below it, as node shows them. */
    function excerpt(error) {
      const frame = String(error.stack).split('\n').find((line) => FRAME.test(line)) ?? '';
      const [, name, row, column] = FRAME.exec(placed(frame)) ?? [];
      const line = textOf(name)?.split('\n')[row - 1];
      if (!line || line.length > EXCERPT_LENGTH) return '';
      const before = line.slice(0, Math.min(column - 1, line.length)).replace(/[^\t]/g, ' ');
      return `${name}:${row}\n${line}\n${before}^\n\n`;
    }

    function textOf(name) {
      if (name === undefined) return undefined;
      // Of an earlier cell there is no text any more.
      if (!name.includes('/')) return name === cell?.name ? cell.code : undefined;
      try {
        return readFileSync(name.startsWith('file:') ? main.fileURLToPath(name) : name, 'utf8');
      } catch {
        return undefined;
      }
    }

    /** A line of a stack with the column that the cell's author knows. */
    function placed(line) {
      return line.replace(PLACE, (whole, name, row, column) => {
        let written = Number(column);
        for (const { column: from, width } of moved.get(name)?.get(Number(row)) ?? []) {
          if (column >= from + width) written -= width;
          else if (column > from) written -= column - from;
        }
        return `${name}:${row}:${written}`;
      });
    }

    // --- what would end the process --------------------------------------------------------------------------------------

    // node looks both up just before it uses them. That they are accessors keeps the kernel off the stacks of all others.
    let emit = process.emit;
    let reports = false;
    defineProperty(process, 'emit', {
      configurable: false,
      enumerable: false,
      get() {
        if (reports) return reportInstead;
        if (cell?.waits && cell.status === undefined && isCalledByNode()) return stuck;
        return emit;
      },
      set(value) {
        emit = value;
      },
    });
    defineProperty(process, '_fatalException', {
      configurable: false,
      enumerable: true,
      get() {
        if (running) return thrownByCell;
        return isHandled() ? fatalOfNode : thrownByCallback;
      },
      set() {},
    });

    function isCalledByNode() {
      // This function and the accessor.
      return main.getCallSites(3).length === 2;
    }

    function isHandled() {
      try {
        return isCaptured() || call(main.listenerCount, process, 'uncaughtException') > 0;
      } catch {
        return false;
      }
    }

    function thrownByCell(error, isRejection) {
      running = false;
      if (cell.status === undefined) raised(cell, error);
      return clearUp(error, isRejection, () => {});
    }

    function thrownByCallback(error, isRejection) {
      return clearUp(error, isRejection, report);
    }

    let told;
    /** Lets node do what it does after an exception that the program has handled. */
    function clearUp(error, isRejection, how) {
      told = how;
      reports = true;
      try {
        call(fatalOfNode, process, error, isRejection);
      } catch {}
      reports = false;
      return true;
    }

    function reportInstead(event, error, origin) {
      if (event === 'uncaughtException') told(error);
      else if (told === report) {
        // 'uncaughtExceptionMonitor', for those who only watch.
        try {
          call(emit, process, event, error, origin);
        } catch {}
      }
      return true;
    }

    /** In place of 'beforeExit': the event loop is empty and the cell waits. */
    function stuck() {
      cell.status = STUCK;
      print(2, 'Warning: Detected unsettled top-level await\n');
      call(keepAlive, bell);
      const mine = cell;
      setImmediate(() => finish(mine));
      return true;
    }

    // --- ready -----------------------------------------------------------------------------------------------------------

    bell.readStart();
    tell('r', '');
    // What a cell would have to wait for; one that comes at once does not wait for it.
    const warmUp = main.setTimeout(() => {
      try {
        rewrite ??= main.rewriter();
        rewrite('const [a] = await b; let { c } = d; class E { f() { return `${a}` } }\nfor (const i of [1]) g(() => i);');
      } catch {}
      inspect([{ a: 1, b: 'text' }], SHOWN);
    }, WARM_UP_MS);
    warmUp.unref();
  }
})();
