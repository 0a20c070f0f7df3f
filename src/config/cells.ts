/** Reads the file of cells (docs/guides/scale.md). Reports every mistake with its line. */
import { readFileSync } from 'node:fs'
import { StartError } from '../ports/errors.ts'
import { SLOTS } from '../core/cells/cells.ts'
import type { Cell, Cells, RoutedBy, SlotRange } from '../core/cells/cells.ts'
import { didYouMean } from './read/nearest.ts'
import { ConfigInvalid, mistake, shownPath } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { readSource } from './read/source.ts'
import { isTree } from './read/tree.ts'

const MEMBERS = ['by', 'header', 'listen', 'cells', 'assigned']
const BY: readonly RoutedBy[] = ['key', 'tenant', 'host']
const KEY_HEADER = 'Idempotency-Key'
const LISTEN = '8080'
/** It becomes part of names in both proxies. */
const NAME = /^[a-z][a-z0-9_-]{0,31}$/
/** nginx drops fields with other characters. */
const HEADER = /^[A-Za-z0-9-]{1,64}$/
const ADDRESS = /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}$/
const LISTENS = /^(?:(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):)?[0-9]{1,5}$/
/** Both proxies take them without quotation marks. */
const ASSIGNED = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/
const RANGE = /^([0-9]{1,3})(?:-([0-9]{1,3}))?$/

/** @throws ConfigInvalid with every mistake. StartError if the file cannot be read. */
export function loadCells (file: string): Cells {
  return readCells(file, textOf(file))
}

export function readCells (file: string, text: string): Cells {
  const source = readSource(file, text)
  if (source.problems.length > 0) throw new ConfigInvalid(source.problems)
  const mistakes: Mistake[] = []
  const cells = new Reader(mistakes).read(source.tree)
  if (mistakes.length > 0) {
    throw new ConfigInvalid(mistakes.map(({ path, at, message }) => {
      const place = source.locate(path, at)
      return { file, line: place?.line ?? null, column: place?.column ?? null, path: shownPath(path), message }
    }))
  }
  return cells
}

function textOf (file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new StartError(`The file of cells ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`, 2, error)
  }
}

class Reader {
  readonly #mistakes: Mistake[]

  constructor (mistakes: Mistake[]) { this.#mistakes = mistakes }

  read (tree: unknown): Cells {
    if (!isTree(tree)) {
      this.#wrong([], 'must be a map: by, cells …')
      return { by: 'key', header: null, listen: LISTEN, cells: [], assigned: new Map() }
    }
    this.#onlyKnown([], tree, MEMBERS)
    const by = BY.find((each) => each === tree.by) ?? this.#wrong(['by'], `must be one of ${BY.join(', ')}`) ?? 'key'
    const cells = this.#cells(tree.cells)
    return {
      by,
      header: this.#header(by, tree.header),
      listen: this.#text(['listen'], tree.listen ?? LISTEN, LISTENS, 'must be PORT or HOST:PORT'),
      cells,
      assigned: this.#assigned(by, tree.assigned, cells)
    }
  }

  #header (by: RoutedBy, value: unknown): string | null {
    if (by === 'host') {
      if (value !== undefined) this.#wrong(['header'], 'is for by: key and by: tenant')
      return null
    }
    if (by === 'tenant' && value === undefined) this.#wrong(['header'], 'is missing: which header names the tenant?')
    return this.#text(['header'], value ?? KEY_HEADER, HEADER, 'must be a field name of letters, digits and -').toLowerCase()
  }

  #cells (tree: unknown): Cell[] {
    if (!isTree(tree) || Object.keys(tree).length === 0) {
      this.#wrong(['cells'], 'must be a map of cells by name')
      return []
    }
    const owners = new Map<number, string>()
    const cells = Object.entries(tree).map(([name, cell]): Cell => {
      const path = ['cells', name]
      if (!NAME.test(name)) this.#wrong(path, `is no name: it must match ${NAME.source}`, 'key')
      if (!isTree(cell)) {
        this.#wrong(path, 'must have slots and gateways')
        return { name, slots: [], gateways: [] }
      }
      this.#onlyKnown(path, cell, ['slots', 'gateways'])
      const slots = this.#slots([...path, 'slots'], cell.slots)
      this.#own(path, name, slots, owners)
      return { name, slots, gateways: this.#gateways([...path, 'gateways'], cell.gateways) }
    })
    const missing = Array.from({ length: SLOTS }, (_, slot) => slot).filter((slot) => !owners.has(slot))
    const [first] = missing
    if (first !== undefined) this.#wrong(['cells'], `${missing.length} of the slots 0-${SLOTS - 1} have no cell, ${first} is the first`)
    return cells
  }

  /** `0-249,500-999`. Empty: none, for tenants that are assigned. */
  #slots (path: Path, value: unknown): SlotRange[] {
    const text = typeof value === 'number' ? String(value) : value
    if (typeof text !== 'string') {
      this.#wrong(path, 'must be ranges of slots: 0-499 or 0-249,500-749')
      return []
    }
    return text.split(',').map((part) => part.trim()).filter((part) => part !== '').flatMap((part) => {
      const [, from, to = from] = RANGE.exec(part) ?? []
      if (from !== undefined && Number(from) <= Number(to)) return [[Number(from), Number(to)] as const]
      this.#wrong(path, `must be ranges of slots from 0 to ${SLOTS - 1}: 0-499 or 0-249,500-749`)
      return []
    })
  }

  #own (path: Path, name: string, ranges: readonly SlotRange[], owners: Map<number, string>): void {
    for (const [from, to] of ranges) {
      for (let slot = from; slot <= to; slot++) {
        const owner = owners.get(slot)
        if (owner !== undefined) {
          this.#wrong([...path, 'slots'], `slot ${slot} belongs to ${owner} already`)
          return
        }
        owners.set(slot, name)
      }
    }
  }

  #gateways (path: Path, value: unknown): string[] {
    if (!Array.isArray(value)) {
      this.#wrong(path, 'must be a list of HOST:PORT. An empty list closes the cell')
      return []
    }
    return value.map((each, at) => this.#text([...path, at], each, ADDRESS, 'must be HOST:PORT'))
  }

  #assigned (by: RoutedBy, tree: unknown, cells: readonly Cell[]): Map<string, string> {
    const assigned = new Map<string, string>()
    if (tree === undefined) return assigned
    if (by === 'key' || !isTree(tree)) {
      this.#wrong(['assigned'], by === 'key' ? 'is for by: tenant and by: host' : 'must be a map: tenant or host to cell')
      return assigned
    }
    for (const [name, cell] of Object.entries(tree)) {
      const path = ['assigned', name]
      if (!ASSIGNED.test(name)) this.#wrong(path, `is no name: it must match ${ASSIGNED.source}`, 'key')
      if (assigned.has(name.toLowerCase())) this.#wrong(path, 'is there twice: case does not count', 'key')
      const names = cells.map((each) => each.name)
      if (!names.some((each) => each === cell)) this.#wrong(path, `must be a cell${didYouMean(String(cell), names)}`)
      else assigned.set(name.toLowerCase(), String(cell))
    }
    return assigned
  }

  #text (path: Path, value: unknown, pattern: RegExp, message: string): string {
    const text = typeof value === 'number' ? String(value) : value
    if (typeof text === 'string' && pattern.test(text)) return text
    this.#wrong(path, message)
    return ''
  }

  #onlyKnown (path: Path, tree: Readonly<Record<string, unknown>>, known: readonly string[]): void {
    for (const name of Object.keys(tree)) {
      if (!known.includes(name)) this.#wrong([...path, name], `is not known${didYouMean(name, known)}`, 'key')
    }
  }

  #wrong (path: Path, message: string, at: Mistake['at'] = 'value'): undefined {
    this.#mistakes.push(mistake(path, message, at))
  }
}
