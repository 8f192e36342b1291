/** Takes one cell after another, with what it is given of the main realm. */
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
    read(1);
    ring();
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
