/**
 * Version of the rules by which requests are identified and compared. The database's scheme names the one in force; under 1
 * gateways of an earlier release serve beside this one, which can read nothing that was made by 2 (schemes.ts).
 */
export type Rules = 1 | 2
