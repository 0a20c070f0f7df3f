/**
 * A port in front of another of its kind. Methods are looked up when they are called, so a method that a port gets needs
 * no line here, nor in any proxy. Properties are given by name: whether one is there must be known before any call.
 */
type Method = (...args: never[]) => unknown

export type MethodOf<Port> = { [Name in keyof Port]-?: NonNullable<Port[Name]> extends Method ? Name : never }[keyof Port]

export type PropertiesOf<Port> = { readonly [Name in keyof Port as NonNullable<Port[Name]> extends Method ? never : Name]-?: Port[Name] }

/** `on` makes the call of `method` on whichever port it gets. */
type Call<Port> = (method: MethodOf<Port>, on: (port: Port) => unknown) => unknown

/** What `call` returns goes to the caller, so it must be what the method returns: a promise, where that is one. */
export function proxied<Port extends object> (properties: PropertiesOf<Port>, call: Call<Port>): Port {
  const methods = new Map<string, unknown>()
  return new Proxy(properties, {
    get: (_, name) => {
      // A promise that resolves to a port looks for `then`.
      if (typeof name === 'symbol' || name === 'then' || name in properties) return Reflect.get(properties, name) as unknown
      if (!methods.has(name)) {
        methods.set(name, (...args: never[]) => call(name as MethodOf<Port>, (port) => (port as Record<string, Method>)[name]?.(...args)))
      }
      return methods.get(name)
    }
  }) as object as Port
}
