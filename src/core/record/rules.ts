/**
 * Version of the rules that identify and compare requests. The database's scheme names the version in force. Under 1, gateways of an
 * earlier release serve beside this one. They cannot read anything made by 2 (schemes.ts).
 */
export type Rules = 1 | 2
