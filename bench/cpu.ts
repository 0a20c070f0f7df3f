/** What processes cost: processor time and memory of a process and all below it, from /proc. Linux only. */
import { readFileSync } from 'node:fs'
import { descendants } from '../test/harness/process.ts'

/** USER_HZ: fixed in the kernel's interface to programs, whatever its own timer does. */
const TICKS_PER_SECOND = 100
const PAGE_FIELDS = /^VmRSS:\s+(\d+) kB/m

/**
 * User and system time so far, in seconds. A child that has ended is counted by whoever waited for it (cutime, cstime), so
 * that the sum over a tree never falls: backends of Postgres come and go.
 */
export function cpuSecondsOf (pid: number): number {
  return tree(pid).reduce((sum, each) => sum + ticksOf(each), 0) / TICKS_PER_SECOND
}

/** Resident memory in MiB; pages that several processes share are counted by each. */
export function rssMibOf (pid: number): number {
  return tree(pid).reduce((sum, each) => sum + Number(PAGE_FIELDS.exec(read(each, 'status'))?.[1] ?? 0), 0) / 1024
}

function tree (pid: number): number[] {
  return [pid, ...descendants(pid)]
}

/** utime, stime, cutime and cstime: the 14th to 17th field, counted from the name in brackets, which may hold spaces. */
function ticksOf (pid: number): number {
  const text = read(pid, 'stat')
  return text.slice(text.lastIndexOf(')') + 2).split(' ').slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
}

/** Of a process that has just ended: nothing. */
function read (pid: number, file: string): string {
  try { return readFileSync(`/proc/${pid}/${file}`, 'latin1') } catch { return '' }
}
