/** Why a pasted text is no request that can be explained. One sentence or two for the operator who pasted it. */
export class PasteError extends Error {}
