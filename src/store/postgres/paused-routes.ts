/** Routes that accept and do not deliver. Operators pause and resume them (inbox-operator.ts). */

/** In a take and in a look for what is due. `route`, `trial`: expressions. A trial passes no pause of an operator. */
export function isPaused (schema: string, route: string, trial = 'false'): string {
  return `exists (select from ${schema}.paused_routes p where p.route = ${route} and (p.trial_at is null or not ${trial}))`
}
