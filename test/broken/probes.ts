/** What goes wrong where the rules of `unknown: probe` are left out, one by one. The simulation must see each. */
import type { Break } from './breaks.ts'

const PROBE = 'core/probe/probe.ts'

export const PROBES: readonly Break[] = [
  {
    name: 'probe-frees-at-once',
    does: 'frees a key when the upstream says "not found" for the first time',
    breaks: ['I12'],
    patches: [
      {
        file: PROBE,
        find: "    if (progress.absentMs === null) return { do: 'again', afterMs: policy.confirmAfterMs, absent: 'first' }\n",
        replace: "    if (progress.absentMs === null) return { do: 'release' }\n"
      },
      {
        file: 'core/protocol/transitions.ts',
        find: '(row.probeTries !== tries || row.absentAtMs === null)',
        replace: 'row.probeTries !== tries'
      },
    ]
  },
  {
    name: 'probe-without-quarantine',
    does: 'counts a "not found" that was said while the first request may still have been under way',
    breaks: ['I12'],
    patches: [
      {
        file: PROBE,
        find: '    if (progress.quarantineLeftMs > 0) {\n      return',
        replace: '    if (progress.quarantineLeftMs > Infinity) {\n      return'
      },
      {
        file: 'core/protocol/transitions.ts',
        find: "event.resolution.outcome === 'released' && quarantineLeftMs(row, nowMs) > 0 ?",
        replace: "event.resolution.outcome === 'released' && quarantineLeftMs(row, nowMs) > Infinity ?"
      }
    ]
  },
  {
    name: 'probe-silence-is-no',
    does: 'takes an upstream that does not answer for one that says "not found"',
    breaks: ['I12'],
    patches: [{
      file: 'gateway/probe/probe.ts',
      find: "    case 'lost': return { kind: 'nothing', why: explained(result.code, route.upstream.name) }\n",
      replace: "    case 'lost': return { kind: 'absent' }\n"
    }]
  },
  {
    name: 'probe-overwrites',
    does: 'lets the owner of a record that a probe has settled call its own answer stored',
    breaks: ['I3', 'I7', 'I11'],
    patches: [{ file: 'gateway/settle/write.ts', find: " && row.settledBy !== 'probe') {\n    return", replace: ') {\n    return' }]
  },
  {
    name: 'probe-never-asks',
    does: 'asks nobody: what is unknown stays so',
    breaks: ['trouble'],
    patches: [{
      file: 'background/reconciler.ts',
      find: '  if (limit <= 0 || gateway.drain.stopped) return\n',
      replace: '  if (limit <= 0 || limit > 0) return\n'
    }]
  }
]
