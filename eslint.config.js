/**
 * Style is neostandard's, with one form of arrow functions, of private members and of long lines. The type-checked rules
 * are about promises and unions: in this program a lost await is a lost lock, and a switch that misses a case is a hole
 * in the protocol.
 */
import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'
import { lineWidth } from './scripts/lint/line-width.js'

const FUNCTION_LINES_MAX = 60

const dialect = {
  files: ['**/*.ts', '**/*.js', '**/*.mjs'],
  plugins: { onceway: { rules: { 'line-width': lineWidth } } },
  rules: {
    '@stylistic/arrow-parens': ['error', 'always'],
    'onceway/line-width': 'error',
    // The engine enforces `#name`; `private` and `protected` end with the types. Constructors have no other form.
    'no-restricted-syntax': ['error', {
      selector: [
        'PropertyDefinition[accessibility=/^(private|protected)$/]',
        'AccessorProperty[accessibility=/^(private|protected)$/]',
        'MethodDefinition[kind!="constructor"][accessibility=/^(private|protected)$/]'
      ].join(', '),
      message: 'Members that are private are written #name.'
    }]
  }
}

/** Blank lines and comments count: what a reader has to scroll through. */
const functions = {
  files: ['src/**/*.ts'],
  rules: { 'max-lines-per-function': ['error', { max: FUNCTION_LINES_MAX, skipBlankLines: false, skipComments: false }] }
}

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
      allowForKnownSafeCalls: [{
        from: 'package',
        package: 'node:test',
        name: ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach']
      }]
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
  typed,
  dialect,
  functions
]
