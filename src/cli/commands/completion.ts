import { type Answer, type Invocation, listOptions, makeFailure } from '../command.ts';
import { commands } from '../commands.ts';
import { formatFlag, type OptionName, type OptionSpec, optionNames, options } from '../options.ts';

/** `reconcile completion bash|zsh|fish`: a script made from the tables of commands and options; no key starts a process. */
export async function run({ operands }: Invocation): Promise<Answer> {
  const [shell = ''] = operands;
  const write = writers.get(shell);
  if (write !== undefined) return { text: write };
  const hint = 'the shells are bash, zsh and fish: source <(reconcile completion bash)';
  throw makeFailure('usage', `there is no completion for the shell ${JSON.stringify(shell)}`, hint);
}

const writers: ReadonlyMap<string, () => string> = new Map(Object.entries({ bash, zsh, fish }));

function choicesOf(name: OptionName): readonly string[] {
  const spec: OptionSpec = options[name];
  return 'choices' in spec ? spec.choices : (spec.words ?? []);
}

const commandNames = commands.map(({ name }) => name).join(' ');

function bash(): string {
  const values = optionNames.flatMap((name) => {
    const words = choicesOf(name).join(' ');
    return words === '' ? [] : [`    ${formatFlag(name)}) COMPREPLY=($(compgen -W '${words}' -- "$cur")); return ;;`];
  });
  const cases = commands.map((spec) => {
    const flags = ['--help', ...listOptions(spec).map(formatFlag)].join(' ');
    return `    ${spec.name === 'apply' ? "apply|''" : spec.name}) flags='${flags}' ;;`;
  });
  return `# reconcile completion for bash: source <(reconcile completion bash)
_reconcile() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command='' word flags
  # bash takes --flag=value for three words
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  case $prev in
${values.join('\n')}
  esac
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case $word in help|${commands.map(({ name }) => name).join('|')}) command=$word; break ;; esac
  done
  case $command in
    help) COMPREPLY=($(compgen -W '${commandNames}' -- "$cur")); return ;;
${cases.join('\n')}
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$cur")); return; fi
  COMPREPLY=($(compgen -f -- "$cur"))
  if [[ -z $command ]]; then COMPREPLY+=($(compgen -W 'help ${commandNames}' -- "$cur")); fi
}
complete -o filenames -F _reconcile reconcile
`;
}

function zsh(): string {
  return `#compdef reconcile
# reconcile completion for zsh: source <(reconcile completion zsh)
autoload -U +X bashcompinit && bashcompinit
${bash()}`;
}

function fish(): string {
  const names = `help ${commandNames}`;
  const lines = [...commands, { name: 'help', summary: 'show the options of a command' }].map(
    ({ name, summary }) =>
      `complete -c reconcile -n "not __fish_seen_subcommand_from ${names}" -a ${name} -d '${quoted(summary)}'`,
  );
  lines.push(`complete -c reconcile -n '__fish_seen_subcommand_from help' -a '${commandNames}'`);
  const flags = commands.flatMap((spec) =>
    listOptions(spec).map((name) => {
      const { kind, help } = options[name] as OptionSpec;
      const value =
        choicesOf(name).length > 0 ? ` -x -a '${choicesOf(name).join(' ')}'` : kind === 'switch' ? '' : ' -r';
      const bare = spec.name === 'apply' ? `; or not __fish_seen_subcommand_from ${names}` : '';
      const when = `__fish_seen_subcommand_from ${spec.name}${bare}`;
      return `complete -c reconcile -n "${when}" -l ${formatFlag(name).slice(2)}${value} -d '${quoted(help)}'`;
    }),
  );
  return `# reconcile completion for fish: reconcile completion fish | source\n${[...lines, ...flags].join('\n')}\n`;
}

function quoted(text: string): string {
  return text.replace(/[\\']/g, '\\$&');
}
