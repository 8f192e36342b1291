// Renders a chart with the template language that Helm uses, Go's own, and the few functions of Helm's that our chart calls.
// A template that calls another one, or reads a value that is not there, is refused: what this renders, Helm renders.
//
//	render <input.json    {"templates": {name: text}, "context": {"Values": …, "Release": …, "Chart": …}}
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"text/template"
)

type input struct {
	Templates map[string]string      `json:"templates"`
	Context   map[string]interface{} `json:"context"`
}

func main() {
	var in input
	decoder := json.NewDecoder(os.Stdin)
	// Numbers stay as they were written.
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		fail(err)
	}
	rendered, err := render(in)
	if err != nil {
		fail(err)
	}
	fmt.Print(rendered)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func render(in input) (string, error) {
	chart := template.New("chart").Option("missingkey=error")
	chart.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out strings.Builder
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml":  func(value interface{}) string { return strings.TrimSuffix(block(value, ""), "\n") },
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		"quote":   func(value interface{}) string { return quoted(fmt.Sprint(value)) },
		"default": func(fallback, value interface{}) interface{} {
			if truth, ok := template.IsTrue(value); ok && truth {
				return value
			}
			return fallback
		},
	})
	names := make([]string, 0, len(in.Templates))
	for name, text := range in.Templates {
		if _, err := chart.New(name).Parse(text); err != nil {
			return "", err
		}
		names = append(names, name)
	}
	sort.Strings(names)
	var documents strings.Builder
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		var out strings.Builder
		if err := chart.ExecuteTemplate(&out, name, in.Context); err != nil {
			return "", err
		}
		if strings.TrimSpace(out.String()) != "" {
			fmt.Fprintf(&documents, "---\n# %s\n%s\n", name, out.String())
		}
	}
	return documents.String(), nil
}

func indent(spaces int, text string) string {
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func quoted(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // text always has a JSON form
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// block writes a value as YAML in block form, each of its lines behind pad.
func block(value interface{}, pad string) string {
	switch value := value.(type) {
	case map[string]interface{}:
		if len(value) == 0 {
			return pad + "{}\n"
		}
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		sort.Strings(names)
		var out strings.Builder
		for _, name := range names {
			out.WriteString(pad + quoted(name) + ":" + member(value[name], pad+"  "))
		}
		return out.String()
	case []interface{}:
		if len(value) == 0 {
			return pad + "[]\n"
		}
		var out strings.Builder
		for _, item := range value {
			text := block(item, pad+"  ")
			out.WriteString(pad + "- " + strings.TrimPrefix(text, pad+"  "))
		}
		return out.String()
	default:
		return pad + scalar(value) + "\n"
	}
}

// member writes what stands behind a name: a scalar or an empty collection on its line, anything else below it.
func member(value interface{}, pad string) string {
	switch value := value.(type) {
	case map[string]interface{}:
		if len(value) > 0 {
			return "\n" + block(value, pad)
		}
	case []interface{}:
		if len(value) > 0 {
			return "\n" + block(value, pad)
		}
	}
	return " " + strings.TrimPrefix(block(value, pad), pad)
}

func scalar(value interface{}) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return quoted(value)
	default:
		return fmt.Sprint(value)
	}
}
