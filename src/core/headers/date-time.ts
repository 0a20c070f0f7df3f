/** A point in time as RFC 3339 (section 5.6) writes it. */

/** Unix milliseconds. null: it is none, or there is no such day. Seconds may be absent. */
export function parseDateTime (text: string): number | null {
  const [, day, time, zone] = DATE_TIME.exec(text) ?? []
  // `Date` takes the 31st of February for the 3rd of March.
  if (day === undefined || new Date(`${day}T00:00Z`).toJSON()?.slice(0, day.length) !== day) return null
  const ms = Date.parse(`${day}T${time}${zone?.toUpperCase()}`)
  return Number.isNaN(ms) ? null : ms
}

/** Without a zone it would be another time for each reader. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)$/i
