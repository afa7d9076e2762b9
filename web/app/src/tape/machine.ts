// Tapes in the browser: the crate assay-tape, built for WebAssembly, behind typed arrays.

interface Exports {
  readonly memory: WebAssembly.Memory;
  message(): number;
  message_length(): number;
  reserve(count: number): number;
  release(numbers: number, count: number): void;
  tape_load(bytes: number, length: number): number;
  tape_of_outputs(tape: number, outputs: number, count: number): number;
  tape_drop(tape: number): void;
  tape_inputs(tape: number): number;
  tape_outputs(tape: number): number;
  tape_evaluate(
    tape: number,
    inputs: number,
    moved: number,
    movedCount: number,
    columns: number,
    points: number,
    outputs: number,
  ): number;
  tape_gradient(tape: number, inputs: number, weights: number, gradient: number): number;
}

/** The evaluator; it makes tapes of their bytes. */
export class Machine {
  private constructor(private readonly run: Exports) {}

  static async start(module: Uint8Array<ArrayBuffer>): Promise<Machine> {
    const { instance } = await WebAssembly.instantiate(module, {});
    return new Machine(instance.exports as unknown as Exports);
  }

  load(bytes: Uint8Array): Tape {
    const tape = this.borrow([Math.ceil(bytes.length / 8)], ([place]) => {
      new Uint8Array(this.run.memory.buffer, place, bytes.length).set(bytes);
      return this.run.tape_load(place, bytes.length);
    });
    return this.tape(tape);
  }

  /** A tape of some of the outputs, by number, without what only the others need. */
  restrict(tape: Tape, outputs: readonly number[]): Tape {
    const restricted = this.borrow([Math.ceil(outputs.length / 2)], ([place]) => {
      new Uint32Array(this.run.memory.buffer, place, outputs.length).set(outputs);
      return this.run.tape_of_outputs(tape.handle, place, outputs.length);
    });
    return this.tape(restricted);
  }

  /**
   * Every output at every point, output by output. `inputs` are the same at every point, but for those
   * that `moved` names, of which `columns` have a number for each point.
   */
  evaluate(
    tape: Tape,
    inputs: Float64Array,
    points = 1,
    moved: readonly number[] = [],
    columns: readonly Float64Array[] = [],
  ): Float64Array {
    const { run } = this;
    const count = tape.outputs * points;
    const sizes = [tape.inputs, Math.ceil(moved.length / 2), moved.length * points, count];
    return this.borrow(sizes, ([first, names, table, results]) => {
      const { buffer } = run.memory;
      new Float64Array(buffer, first, tape.inputs).set(inputs);
      new Uint32Array(buffer, names, moved.length).set(moved);
      const rows = new Float64Array(buffer, table, moved.length * points);
      for (const [row, column] of columns.entries()) rows.set(column, row * points);
      this.check(
        run.tape_evaluate(tape.handle, first, names, moved.length, table, points, results),
      );
      return new Float64Array(run.memory.buffer, results, count).slice();
    });
  }

  /** The derivative by every input of the outputs, weighted, at one point. */
  gradient(tape: Tape, inputs: Float64Array, weights: Float64Array): Float64Array {
    const { run } = this;
    const sizes = [tape.inputs, tape.outputs, tape.inputs];
    return this.borrow(sizes, ([first, second, results]) => {
      const { buffer } = run.memory;
      new Float64Array(buffer, first, tape.inputs).set(inputs);
      new Float64Array(buffer, second, tape.outputs).set(weights);
      this.check(run.tape_gradient(tape.handle, first, second, results));
      return new Float64Array(run.memory.buffer, results, tape.inputs).slice();
    });
  }

  forget(tape: Tape): void {
    this.run.tape_drop(tape.handle);
  }

  private tape(handle: number): Tape {
    this.check(handle);
    const { run } = this;
    return { handle, inputs: run.tape_inputs(handle), outputs: run.tape_outputs(handle) };
  }

  private check(done: number): void {
    if (done !== 0) return;
    const { memory, message, message_length } = this.run;
    const bytes = new Uint8Array(memory.buffer, message(), message_length());
    throw new Error(new TextDecoder().decode(bytes));
  }

  /** Use memory for so many numbers each, and give it back. Views are made after it is reserved. */
  private borrow<Result>(
    counts: readonly number[],
    use: (places: readonly number[]) => Result,
  ): Result {
    const places = counts.map((count) => this.run.reserve(count));
    try {
      return use(places);
    } finally {
      for (const [at, place] of places.entries()) this.run.release(place, counts[at]);
    }
  }
}

export interface Tape {
  readonly handle: number;
  readonly inputs: number;
  readonly outputs: number;
}
