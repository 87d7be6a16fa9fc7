"""Makes tests/text/template_cases.json: small templates and what Python's jinja2 makes of them.

    python3 scripts/golden_template.py > tests/text/template_cases.json

Made with jinja2 3.1.6, set up as chat templates are: trim_blocks, lstrip_blocks, loop
controls, tojson without escaping, raise_exception.
"""
import json
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(x, indent=None, ensure_ascii=False, sort_keys=False, separators=None):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys,
                      separators=separators)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                    extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"])
env.globals["raise_exception"] = raise_exception
env.filters["tojson"] = tojson

V = {"s": "Hello, wörld", "e": "", "n": 7, "f": 2.5, "t": True, "z": None,
     "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": "y"}], "items": "i"},
     "m": [{"role": "user", "content": " hi "}, {"role": "tool", "content": None},
           {"role": "user", "content": "<b>'\"&"}],
     "u": "日本語\n\ttab", "q": "it's", "big": 9007199254740993, "tiny": 1.5e-7, "neg": -3}

CASES = r"""
{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }}
{{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 1.5 + 1 }} {{ 1e3 }} {{ 1e16 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 1_000 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 3.0 }} {{ 100000000000000000.0 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }}
{{ big }} {{ tiny }} {{ neg }} {{ -neg }} {{ +n }} {{ neg|abs }} {{ -1|abs }} {{ f|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }} {{ 'a' + 'b' * 3 }} {{ 2 * 'ab' }} {{ [1] * 3 }} {{ [1] + [2, 'x'] }}
{{ 'q' + 2 ~ 3 }} {{ 'x' 'y' "z" }} {{ 'a\n\t\\\'\x41\u00e9\d' }}|
{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ [1, 2] < [1, 3] }} {{ 'a' != 'b' }} {{ none == none }}
{{ 'ell' in s }} {{ 'x' not in s }} {{ 3 in l }} {{ 'b' in d }} {{ 'q' in d }} {{ 1 in missing }} {{ not 1 in l }}
{{ 1 and 2 }} {{ 0 or 'x' }} {{ not e }} {{ '' and missing.x }} {{ 1 or missing.x }} {{ none or none }}
{{ 'y' if n > 3 else 'n' }} {{ 'y' if n < 3 }}| {{ 'a' if e else 'b' if n else 'c' }}
{{ s[0] }} {{ s[-1] }} {{ s[8] }} {{ s[99] }}| {{ l[0] }} {{ l[-1] }} {{ l[7] }}| {{ d['b'] }} {{ d.b }} {{ d['items'] }} {{ d.nope }}| {{ m[0].role }} {{ m.0.role }}
{{ s[1:4] }} {{ s[::-1] }} {{ s[7:] }} {{ s[:-3] }} {{ s[-5:-1] }} {{ s[::2] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5:] }} {{ l[-2:] }} {{ l[2:0:-1] }} {{ s[5:2] }}|
{{ s[99:] }}|{{ s[-99:2] }}|{{ u[1:3] }}|{{ u[::-1] }}|{{ l[10:-10:-1] }}|{{ (1,2,3)[1:] }}
{{ [1, 'a', none, true, 1.5, [2], {'k': 'v'}, (1,), (1, 2)] }} {{ d }} {{ {} }} {{ [] }} {{ () }} {{ {'a': 1, 2: 'b'} }}
{{ ["it's"] }} {{ ['"'] }} {{ ["'\""] }} {{ ['\n\\'] }} {{ [u] }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ missing }}| {{ false }}
{{ s|length }} {{ l|length }} {{ d|length }} {{ e|length }} {{ u|length }} {{ missing|length }} {{ s|count }}
{{ s|upper }} {{ s|lower }} {{ 'hELLO wORLD-foo'|title }} {{ 'hELLO'|capitalize }} {{ "they're bill's"|title }} {{ 'ÄÖ é'|lower }} {{ 'ab é'|upper }}
{{ '  x '|trim }}| {{ '  x '.strip() }}| {{ '  x '.lstrip() }}| {{ '  x '.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'xyax'|trim('yx') }} {{ '\u3000 a\u00a0'|trim }}|
{{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a,b'.split(',')[-1] }}
{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.find('w') }} {{ s.find('zz') }} {{ 'aXa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ 'a-b'|replace('-', '+') }} {{ 'aaa'|replace('a', 'b', 1) }} {{ 'abc'.upper() }} {{ 'a b'.title() }} {{ "they're"|title }} {{ "they're".title() }} {{ 'x'.join(['a', 'b']) }} {{ 'aXaXa'.count('X') }}
{{ 'a\nb\n'.splitlines() }} {{ '12'.isdigit() }} {{ 'a1'.isalpha() }} {{ 'prefix-a'.removeprefix('prefix-') }} {{ 'a.txt'.removesuffix('.txt') }} {{ 'ab'.capitalize() }}
{{ l|join(', ') }} {{ l|join }} {{ m|join('/', attribute='role') }} {{ l|first }} {{ l|last }} {{ []|first }}| {{ l|sum }} {{ l|min }} {{ l|max }} {{ l|sort }} {{ l|sort(reverse=true) }} {{ w|sort }} {{ w|sort(case_sensitive=true) }}
{{ l|reverse|list }} {{ s|reverse }} {{ 'abc'|list }} {{ d|list }} {{ w|unique|list }} {{ l|map('string')|join('-') }} {{ m|map(attribute='role')|list }} {{ m|map(attribute='x', default='?')|list }} {{ w|map('upper')|list }}
{{ m|selectattr('role', 'equalto', 'user')|list|length }} {{ m|rejectattr('content')|list }} {{ l|select('odd')|list }} {{ l|reject('gt', 1)|list }} {{ m|selectattr('content', 'defined')|list|length }} {{ [0, 1, '']|select|list }}
{{ m|selectattr('role', 'in', ['tool'])|map(attribute='role')|first }} {{ m|sort(attribute='role')|map(attribute='role')|list }} {{ l|batch(2)|list }}
{{ d|items|list }} {{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 'x') }} {{ d|dictsort }} {{ missing|items|list }}
{{ missing|default('x') }} {{ e|default('x') }}| {{ e|default('x', true) }} {{ z|default('x', boolean=true) }} {{ missing|d }}| {{ n|default(1) }}
{{ '3'|int }} {{ '3.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ 3.9|int }} {{ '2.5'|float }} {{ 'q'|float }} {{ n|float }} {{ ' 12 '|int }} {{ '1e2'|float }} {{ n|string + 'x' }}
{{ "<a href='x'>&"|e }} {{ 'x'|safe }} {{ m[2].content|escape }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2, true) }}| {{ 'a\n\nb'|indent(2, blank=true) }}| {{ 'a\nb'|indent(width='> ') }} {{ 'one two  three'|wordcount }}
{{ d|tojson }} {{ u|tojson }} {{ q|tojson }} {{ [1, 2.0, true, none, 'a"b\\'] |tojson }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ '😀'|tojson(ensure_ascii=true) }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ [[]]|tojson(indent=1) }} {{ {1: 2, none: 3}|tojson }} {{ '\x01\x7f\b\f'|tojson }} {{ d|tojson(separators=(',', ':')) }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ z is none }} {{ z is not none }} {{ n is number }} {{ t is number }} {{ t is boolean }} {{ n is integer }} {{ t is integer }} {{ f is float }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ 3 is odd }} {{ -3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}
{{ n is eq 7 }} {{ n is equalto(7) }} {{ n is gt 3 and n is lt 9 }} {{ n is ne 7 }} {{ t is true }} {{ n is true }} {{ t is false }} {{ 'a' is in 'abc' }} {{ t is sameas true }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ 'a' is not in ['a'] }} {{ range is callable }} {{ 'upper' is filter }} {{ not missing is defined }}
{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}:{{ x }} {{ loop.previtem }} {{ loop.nextitem }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for x in [] %}a{% else %}none{% endfor %}{% for c in 'añb' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for x in range(10) if x is odd %}{{ loop.index }}:{{ x }}{{ ',' if not loop.last }}{% endfor %} {% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for i in range(2) %}{% for j in range(2) %}{{ loop.depth }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i) }}{% endfor %}{% endfor %} {% for x in missing %}{% else %}empty{% endfor %}
{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% if true %}{% set y = 5 %}{% endif %}{{ y }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns.b }} {{ ns.c }}|
{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }} {% set y | upper %}abc{% endset %}{{ y }} {% filter upper %}x{{ e }}y{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}| {% set ns = namespace() %}{% set ns.x = [] %}{% set ns.x = ns.x + [1] %}{{ ns.x }}
{% macro f(a, b=2, c='q') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c=4) }}{{ f(b=0, a=9) }}{{ f() }} {{ f(1)|length }} {{ f(f(1)) }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }} {% macro g(x) %}{{ x }}<{{ caller() }}>{% endmacro %}{% call g(1) %}in{{ n }}{% endcall %} {% macro h() %}{{ caller('p') }}{% endmacro %}{% call(a) h() %}-{{ a }}-{% endcall %}
{% set g = 'top' %}{% macro f() %}{{ g }}{% endmacro %}{% set g = 'new' %}{{ f() }}
{% if n == 1 %}a{% elif n == 7 %}b{% else %}c{% endif %} {% if e %}a{% elif z %}b{% endif %}| {% do l %}{% if l and not e %}x{% endif %}
{# comment #}a{#- b -#}  c {% raw %}{{ x }}{% y %}{% endraw %} d {{- ' e ' -}}  f
{{ {'a': {'b': [1, {'c': 'deep'}]}}['a']['b'][1].c }} {{ {'x}}': '%}'}['x}}'] }} {{ dict(a=1)['a'] }} {{ dict({'k': 2}, b=3) }} {{ ('%s')|length }}
{{ (1) }} {{ (1,)|length }} {{ ()|length }} {{ 1, 2 }} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {{ [1, 2,] }} {{ {'a': 1,} }}
{{ missing.x }}
{{ missing['x'] }}
{{ d.nope.x }}
{{ 1 + none }}
{{ 'a' + 1 }}
{{ missing + 'a' }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ none|length }}
{% for x in 5 %}{% endfor %}
{{ 1 < 'a' }}
{{ 1 in 'a' }}
{{ n() }}
{{ missing() }}
{{ missing|tojson }}
{{ raise_exception('own words') }}
{% if false %}{{ raise_exception('no') }}{% endif %}fine
{% set a, b = [1] %}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(q=2) }}
{% set d.x = 1 %}
{{ s[::0] }}
{{ 'a'.split('') }}
{{ z.x }}|{{ n.x }}|{{ z['q'] }}|
{{ loop }}|{{ loop is defined }}
{{ s.nope }}|{{ l.nope }}|{{ s.nope() }}
"""

SPACE = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n\n",
    "  {{ 1 }}\n  {% set x = 1 %}  \n  y {% if x %} z {% endif %} \n\n",
    "a {#  c #}\nb\n  {# d #}\n  e\r\nf\rg {%+ if true +%}\n h{% endif %}\n",
    "  {%+ if true %}\n x\n  {% endif +%}\n y\n",
    "{% for x in [1,2] %}\n- {{ x }}\n{% endfor %}\nend",
    "{% raw -%}\n  {{ a }}\n  {%- endraw %}\nb",
    "  {% raw %}\n  x\n  {% endraw %}\n  y",
    "x\n\n", "\n", "", "{{ 'a' }}\n", "{{ 'a' -}}\n\n  b", "a \t\n {{- 'b' }}", "a\u00a0{%- if true %}b{% endif %}",
    "{% if true %}\t\n\n x{% endif %}", "{{- 1 -}}{{- 2 -}}", "a  {#- x #}  b", "{% if true -%}\n\n{% endif %}|",
    "\t{% if 1 %}{# a #}\n\t{# b #}\n{% endif %}x", "{{ \"a\nb\" }}{{ 'c\r\nd' }}",
    "{% if 1 %}a{% else -%} b{% endif %}\n\n\nc", "{{ 1 }}{% if 1 %}\n{% endif %}\n{{ 2 }}",
]


def case(source):
    out = {"source": source}
    try:
        out["rendered"] = env.from_string(source).render(**V)
    except Exception as e:
        out["error"] = str(e)
    return out


sources = [line for line in CASES.split("\n") if line] + SPACE
json.dump({"variables": V, "cases": [case(s) for s in sources]}, sys.stdout,
          ensure_ascii=False, indent=1)
sys.stdout.write("\n")
