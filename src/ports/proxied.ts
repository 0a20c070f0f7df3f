/**
 * A port that forwards to another port of its kind. Methods are looked up by name at each call, so new methods of a port need
 * no line here. Properties are listed by name, because their presence must be known before any call.
 */
type Method = (...args: never[]) => unknown

export type MethodOf<Port> = { [Name in keyof Port]-?: NonNullable<Port[Name]> extends Method ? Name : never }[keyof Port]

export type PropertiesOf<Port> = { readonly [Name in keyof Port as NonNullable<Port[Name]> extends Method ? never : Name]-?: Port[Name] }

/** `on` calls `method` on the port that it is given. */
type Call<Port> = (method: MethodOf<Port>, on: (port: Port) => unknown) => unknown

/** The caller gets what `call` returns. So `call` must return what the method returns, a promise if the method does. */
export function proxied<Port extends object> (properties: PropertiesOf<Port>, call: Call<Port>): Port {
  const methods = new Map<string, unknown>()
  const forwarding = new Proxy({}, {
    get: (_, name) => {
      // A promise that resolves to a port looks for `then`.
      if (typeof name === 'symbol' || name === 'then') return undefined
      if (!methods.has(name)) {
        methods.set(name, (...args: never[]) => call(name as MethodOf<Port>, (port) => (port as Record<string, Method>)[name]?.(...args)))
      }
      return methods.get(name)
    }
  })
  // Every request reads some of the properties: behind the proxy's trap each would cost more than what it says.
  return Object.create(forwarding, Object.getOwnPropertyDescriptors(properties)) as Port
}
