/** The sign-in page. */
import type { SignInPage } from '../sign-in/authenticated.ts'

export function signInPage ({ methods, error, next }: SignInPage): string {
  const hidden = `<input type="hidden" name="next" value="${escaped(next)}">`
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Sign in · onceway</title>
<main><h1>Sign in</h1>
${error === null ? '' : `<p role="alert">${escaped(error)}</p>`}
${methods.oidc ? `<p><a href="/sign-in/oidc?next=${encodeURIComponent(next)}">Sign in with your organisation</a></p>` : ''}
${methods.token ? `<form method="post" action="/sign-in">${hidden}<label>Token <input type="password" name="token" required autocomplete="off"></label> <button>Sign in</button></form>` : ''}
</main></html>
`
}

function escaped (text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
