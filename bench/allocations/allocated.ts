/** From what a heap holds around each collection to what was allocated between them. Pure. */

export interface HeapUse {
  /** The young generation. Between two collections it only grows. */
  readonly young: number
  /** All other spaces. Sweeping goes on after a collection, so it may also shrink. */
  readonly old: number
  /** Outside of the heap: contents of buffers. Freed at any time. */
  readonly external: number
}

export interface Collection { readonly before: HeapUse, readonly after: HeapUse }

/** What `v8.GCProfiler` and `v8.getHeapSpaceStatistics` say of the spaces. */
interface Space { readonly name: string, readonly used: number }

const YOUNG: ReadonlySet<string> = new Set(['new_space', 'new_large_object_space'])

export function heapUse (spaces: readonly Space[], external: number): HeapUse {
  let [young, old] = [0, 0]
  for (const { name, used } of spaces) {
    if (YOUNG.has(name)) young += used
    else old += used
  }
  return { young, old, external }
}

/** What a process answers when it has begun to count; else what it counted. */
export const BEGUN = 'begun'

export interface Allocated {
  /** Bytes in the young and the old generation. */
  readonly heap: number
  readonly external: number
}

/** A space that has shrunk between two collections has been swept, and is taken to have got nothing. */
export function allocated (start: HeapUse, collections: readonly Collection[], end: HeapUse): Allocated {
  let [last, heap, external] = [start, 0, 0]
  const add = (now: HeapUse): void => {
    heap += Math.max(0, now.young - last.young) + Math.max(0, now.old - last.old)
    external += Math.max(0, now.external - last.external)
  }
  for (const { before, after } of collections) {
    add(before)
    last = after
  }
  add(end)
  return { heap, external }
}
