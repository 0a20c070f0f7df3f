/**
 * The time line of a record as a picture, with the same as a list below it. Seconds and days stand side by side, so places are by the
 * logarithm of the time, and never too close to tell apart.
 */
import type { VNode } from 'preact'
import type { RecordJson } from '../../../operator/records/schemas.ts'
import { circle, figcaption, figure, li, line, ol, span, svg, svgText } from '../shell/elements.ts'
import { duration, moment, visible } from '../shell/text.ts'

type Moment = RecordJson['history'][number]

/** Percent of the width. */
const FIRST = 4
const LAST = 96
const GAP_MIN = 9
/** Pixels. */
const HEIGHT = 56
const MIDDLE = 20
const RADIUS = 9
const TEXT_BELOW = 5
const NOW_BELOW = 48

const WORDS: Readonly<Record<Moment['what'] | 'unknown', string>> = {
  claimed: 'Claimed',
  sent: 'Sent',
  answered: 'Answered',
  settled: 'Settled',
  unknown: 'Outcome unknown',
  changed: 'Changed',
  expires: 'End of retention',
  'lease-over': 'Lease over',
  releasable: 'Can be released'
}

export function timeline ({ history, state }: Pick<RecordJson, 'history' | 'state'>, nowMs: number): VNode {
  const kindOf = (what: Moment['what']) => what === 'settled' && state === 'indeterminate' ? 'unknown' : what
  const begunMs = Date.parse(history[0]?.at ?? '')
  const nowSinceMs = Math.max(0, nowMs - begunMs)
  const passed = history.filter(({ sinceClaimMs }) => sinceClaimMs <= nowSinceMs).length
  const places = placesOf([
    ...history.slice(0, passed).map(({ sinceClaimMs }) => sinceClaimMs),
    nowSinceMs,
    ...history.slice(passed).map(({ sinceClaimMs }) => sinceClaimMs)
  ])
  const nowAt = places[passed] ?? FIRST
  const eventAt = places.toSpliced(passed, 1)
  return figure({ class: 'timeline' },
    svg({ width: '100%', height: HEIGHT, 'aria-hidden': 'true', focusable: 'false' },
      line({ class: 'past', x1: `${FIRST}%`, x2: `${nowAt}%`, y1: MIDDLE, y2: MIDDLE }),
      line({ class: 'future', x1: `${nowAt}%`, x2: `${LAST}%`, y1: MIDDLE, y2: MIDDLE }),
      line({ class: 'now', x1: `${nowAt}%`, x2: `${nowAt}%`, y1: MIDDLE - RADIUS, y2: MIDDLE + RADIUS }),
      svgText({ class: 'now', x: `${nowAt}%`, y: NOW_BELOW, 'text-anchor': 'middle' }, 'now'),
      history.map(({ what }, at) => [
        circle({ class: `dot ${kindOf(what)}${at < passed ? '' : ' to-come'}`, cx: `${eventAt[at]}%`, cy: MIDDLE, r: RADIUS }),
        svgText({ class: 'in-dot', x: `${eventAt[at]}%`, y: MIDDLE + TEXT_BELOW, 'text-anchor': 'middle' }, at + 1)
      ])),
    figcaption({}, 'Not to scale.'),
    ol({ class: 'moments' }, history.map(({ what, at, sinceClaimMs, text }, index) => li({ class: index < passed ? undefined : 'to-come' },
      span({ class: 'what' }, WORDS[kindOf(what)]), ' ', moment(at),
      sinceClaimMs === 0 ? null : span({ class: 'hint' }, ` ${duration(sinceClaimMs)} after the claim`),
      span({ class: 'text' }, visible(text))))))
}

/** In percent, in the order of `times`, which are sorted. */
function placesOf (times: readonly number[]): number[] {
  const log = times.map((ms) => Math.log1p(Math.max(0, ms)))
  const whole = log.at(-1) || 1
  const gap = Math.min(GAP_MIN, (LAST - FIRST) / Math.max(1, times.length - 1))
  const places = log.map((value) => FIRST + value / whole * (LAST - FIRST))
  for (let at = 1; at < places.length; at++) places[at] = Math.max(places[at] ?? FIRST, (places[at - 1] ?? FIRST) + gap)
  for (let at = places.length - 1, most = LAST; at >= 0; at--, most -= gap) places[at] = Math.min(places[at] ?? LAST, most)
  return places.map((place) => Math.round(place * 100) / 100)
}
