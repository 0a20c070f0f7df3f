/**
 * Streams of a search that are parts of one index. There may be hundreds. A step that is asked for is read together with others.
 */
import type { Order, Position } from '../../ports/operator.ts'
import { compare, type Step, type StepOrder, type Stream } from '../shared/search.ts'

/** `from`: where the next step of the part begins. */
export interface PartPlace<Part> { readonly part: Part, readonly from: Position | null }

export interface PartsOrder {
  /** Rows to look at, in each part. */
  readonly rows: number
  /** Rows to find, in all parts. With so many, every part has reached the last of them at most. */
  readonly wanted: number
  readonly withinMs: number
}

/** One step for each of the places. */
export type ReadParts<Part, Row> = (places: ReadonlyArray<PartPlace<Part>>, order: PartsOrder) => Promise<ReadonlyArray<Step<Row>>>

export interface PartsSearch {
  readonly order: Order
  readonly after: Position | null
  /** Of each part, at least: what is found there costs more than to look for it. */
  readonly rowsMin: number
}

export function partStreams<Part, Row> (parts: readonly Part[], search: PartsSearch, read: ReadParts<Part, Row>): Array<Stream<Row>> {
  const reader = new PartsReader(parts, search, read)
  return reader.places.map((place) => (order) => reader.step(place, order))
}

/** How far a part is read. */
interface Place<Part, Row> extends PartPlace<Part> {
  from: Position | null
  /** Its next step, which was read along with another's. */
  ready: Step<Row> | null
  isOver: boolean
  /** Its last step found nothing, or it has had none: its next one is wanted soon. */
  isBare: boolean
}

/**
 * The nearest parts are read along first. If few of these steps are asked for afterwards, one part has most of what comes next, and fewer
 * others are read along with it.
 */
class PartsReader<Part, Row> {
  readonly places: ReadonlyArray<Place<Part, Row>>
  readonly #search: PartsSearch
  readonly #read: ReadParts<Part, Row>
  /** How many parts are read at once. */
  #width: number
  /** Steps that were asked for since they were. */
  #asked = 0

  constructor (parts: readonly Part[], search: PartsSearch, read: ReadParts<Part, Row>) {
    this.places = parts.map((part) => ({ part, from: search.after, ready: null, isOver: false, isBare: true }))
    this.#search = search
    this.#read = read
    this.#width = parts.length
  }

  async step (place: Place<Part, Row>, order: StepOrder): Promise<Step<Row>> {
    if (place.ready === null) await this.#readAlong(place, order)
    this.#asked++
    const step = place.ready ?? NOTHING
    place.ready = null
    place.from = step.reached
    place.isOver = step.reached === null
    place.isBare = step.found.length === 0
    return step
  }

  async #readAlong (place: Place<Part, Row>, { size, wanted, withinMs }: StepOrder): Promise<void> {
    const { order, rowsMin } = this.#search
    if (this.#asked > 0) this.#width = 2 * this.#asked
    this.#asked = 0
    const others = this.places.filter((other) => other !== place && other.isBare && !other.isOver && other.ready === null)
      .sort((one, other) => compare(one.from, other.from, order))
    const places = [place, ...others.slice(0, this.#width - 1)]
    const steps = await this.#read(places, { rows: Math.max(rowsMin, Math.ceil(size / places.length)), wanted, withinMs })
    for (const [index, each] of places.entries()) each.ready = steps[index] ?? NOTHING
  }
}

const NOTHING: Step<never> = { found: [], reached: null }

/** null: to the end. */
export function nearer (one: Position | null, other: Position | null, order: Order): Position | null {
  if (one === null || other === null) return one ?? other
  return compare(one, other, order) <= 0 ? one : other
}
