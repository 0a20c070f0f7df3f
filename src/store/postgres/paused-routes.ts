/** Routes that accept and do not deliver. Operators pause and resume them (inbox-operator.ts). */

/** In a take and in a look for what is due. `route`: an expression. */
export function isPaused (schema: string, route: string): string {
  return `exists (select from ${schema}.paused_routes p where p.route = ${route})`
}

/** In a trial. */
export function isPausedByOperator (schema: string, route: string): string {
  return `exists (select from ${schema}.paused_routes p where p.route = ${route} and p.trial_at is null)`
}
