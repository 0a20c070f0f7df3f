/** The sign-in of operators as one part: who sent a request, whether a change is meant, and the routes of signing in and out. */
import type { FastifyPluginAsync } from 'fastify'
import type { SignInMethods } from './authenticated.ts'
import { Authenticator } from './authenticator.ts'
import { CurrentKeeper } from './current.ts'
import { addSignInRoutes } from './routes.ts'
import type { SignInOptions } from './routes.ts'

export type { SignInOptions } from './routes.ts'

export interface SignIn extends Pick<Authenticator, 'authenticate' | 'checkCsrf'> {
  /** Adds /sign-in and /sign-out. Nothing can be authenticated before `await admin.register(signIn.plugin)`. */
  readonly plugin: FastifyPluginAsync
  /** The ways to sign in that are configured now. With none there is only the view on loopback. */
  readonly methods: () => SignInMethods
}

export function createSignIn (options: SignInOptions): SignIn {
  const keeper = new CurrentKeeper(options)
  const authenticator = new Authenticator(options, keeper)
  return {
    authenticate: async (request) => authenticator.authenticate(request),
    checkCsrf: (request, operator, token) => authenticator.checkCsrf(request, operator, token),
    methods: () => keeper.get().methods,
    plugin: async (fastify) => {
      addSignInRoutes(fastify, { ...options, ...await authenticator.attach(fastify), authenticator, keeper })
    }
  }
}
