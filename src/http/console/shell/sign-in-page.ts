/** The sign-in page. */
import type { SignInPage } from '../../sign-in/authenticated.ts'
import { a, button, div, form, p } from './elements.ts'
import { hidden, textField } from './forms.ts'
import { documentWith } from './layout.ts'
import { withQuery } from './links.ts'
import { visible } from './text.ts'

export function signInPage ({ methods, error, next }: SignInPage): string {
  return documentWith({
    title: 'Sign in',
    operator: null,
    sections: [],
    url: '/sign-in',
    content: div({ class: 'card narrow' },
      error === null ? null : p({ class: 'notice bad', role: 'alert', id: 'error' }, visible(error)),
      methods.oidc ? p({}, a({ class: 'button', href: withQuery('/sign-in/oidc', { next }) }, 'Sign in with your organisation')) : null,
      methods.token
        ? form({ method: 'post', action: '/sign-in' },
          hidden('next', next),
          textField({
            name: 'token',
            label: 'Token',
            hint: 'The command “onceway token” makes one.',
            more: {
              type: 'password',
              required: true,
              autocomplete: 'off',
              ...error !== null && {
                'aria-invalid': 'true', 'aria-describedby': 'f-token-hint error'
              }
            }
          }),
          button({ class: 'main', type: 'submit' }, 'Sign in'))
        : null)
  })
}
