/**
 * Style is neostandard's; the type-checked rules are about promises and unions: in this program a lost await is a lost
 * lock, and a switch that misses a case is a hole in the protocol.
 */
import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

const typed = {
  files: ['**/*.ts'],
  languageOptions: {
    parser: tseslint.parser,
    parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname }
  },
  plugins: { '@typescript-eslint': tseslint.plugin },
  rules: {
    '@typescript-eslint/await-thenable': 'error',
    // node:test returns a promise from describe and test that the runner itself waits for.
    '@typescript-eslint/no-floating-promises': ['error', {
      allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach'] }]
    }],
    '@typescript-eslint/no-misused-promises': 'error',
    '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    'no-throw-literal': 'off',
    // `void promise` as a statement is how a promise is let go on purpose.
    'no-void': ['error', { allowAsStatement: true }],
    '@typescript-eslint/only-throw-error': 'error',
    '@typescript-eslint/return-await': ['error', 'in-try-catch'],
    '@typescript-eslint/no-explicit-any': 'error',
    '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'separate-type-imports' }]
  }
}

export default [
  ...neostandard({ ts: true, ignores: ['dist/**', 'node_modules/**', 'schema/**'] }),
  typed
]
