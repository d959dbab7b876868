use super::*;

#[test]
fn bfq_serves_without_injection_and_raising_unless_they_are_asked_for() {
    let of = |config: &str, of: &str| {
        let set = device_options(config).unwrap().set;
        set.iter().find(|(name, _)| name == of).map(|(_, value)| *value)
    };
    for (config, injection, low_latency) in [
        ("bfq", Some(0), Some(0)),
        ("max-bfq{low_latency=0}", Some(0), Some(0)),
        ("bfq{injection=1}", Some(1), Some(0)),
        ("bfq{low_latency=1}", Some(0), Some(1)),
        ("bfq{base=6.1}", None, None),
        ("bfq-v1", None, None),
        ("mq-deadline", None, None),
        ("none", None, None),
    ] {
        let got = (of(config, "injection"), of(config, "low_latency"));
        assert_eq!(got, (injection, low_latency), "{config}");
    }
}

#[test]
fn kyber_serves_without_samples_of_flushes_unless_they_are_asked_for() {
    let set = |config: &str| device_options(config).unwrap().set;
    assert_eq!(set("kyber"), [("flush_samples".to_string(), 0)]);
    assert_eq!(set("kyber{flush_samples=1}"), [("flush_samples".to_string(), 1)]);
}

#[test]
fn exports_are_read_from_flags_and_files_alike() {
    let flag = ExportSpec::parse("gold=ram:1G,weight=500,ro,offset=1M").unwrap();
    let file: ServeOptions = toml::from_str(
        "[[export]]\nname = \"gold\"\ntarget = \"ram:1G\"\nweight = 500\nread-only = true\n\
         offset = \"1M\"\n",
    )
    .unwrap();
    assert_eq!(file.export, std::slice::from_ref(&flag));
    assert_eq!(flag.range(), Ok((1 << 20, None)));
    assert!(matches!(flag.target(), Ok(Target::Ram { size: 1_073_741_824 })));
    assert_eq!(ExportSpec::parse("ram:1M").unwrap().name, "disk");
}

#[test]
fn mistakes_are_named() {
    let target = |text: &str| ExportSpec::parse(text).and_then(|e| e.target()).unwrap_err();
    assert!(target("a=ram:x").contains("'x' is not a size"));
    assert!(target("a=ram:1X").contains("'1X' is not a size"));
    assert!(target("a=emulate:plextor-px-256m5s:1X").contains("'1X' is not a size"));
    assert!(target("a=rom:1G").contains("no target 'rom'"));
    assert!(target("a=ram:1G,direct").contains("direct is for file:PATH, not for ram"));
    assert!(target("a=ram:1G,wight=1").contains("'wight=1' is not known"));
    assert!(target("a=emulate:plextor:1G").contains("no drive 'plextor'"));
    assert!(prio("be/8").unwrap_err().contains("be/8"));
    assert!(listen("here").unwrap_err().contains("here"));
    let at = Listen::Tcp("127.0.0.1:10809".parse().unwrap());
    assert_eq!(listen("tcp:10809"), Ok(at));
}

#[test]
fn exports_that_share_a_device_agree_on_how_it_is_opened() {
    let file = |exports: &[&str]| {
        let export = exports.iter().map(|e| ExportSpec::parse(e).unwrap()).collect();
        ServeOptions { export, ..ServeOptions::default() }
    };
    let read_only = |exports: &[&str]| {
        let file = file(exports);
        let of = |export| match file.target(export).unwrap() {
            Target::File { options, .. } => options.read_only,
            other => panic!("{other:?}"),
        };
        file.export.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(read_only(&["a=file:/x,ro", "b=file:/x"]), [false, false]);
    assert_eq!(read_only(&["a=file:/x", "b=file:/x,ro"]), [false, false]);
    assert_eq!(read_only(&["a=file:/x,ro", "b=file:/x,ro", "c=file:/y"]), [true, true, false]);
    for (one, other) in [
        ("a=file:/x,direct", "b=file:/x"),
        ("a=file:/x", "b=file:/x,way=threads"),
        ("a=emulate:plextor-px-256m5s", "b=emulate:plextor-px-256m5s,seed=2"),
    ] {
        let error = |exports: &[&str]| {
            let file = file(exports);
            file.target(&file.export[0]).unwrap_err()
        };
        assert!(error(&[one, other]).contains("with export 'b'"), "{one}");
        assert!(error(&[other, one]).contains("with export 'a'"), "{other}");
    }
}

#[test]
fn keys_of_a_file_are_those_of_the_flag_and_mistakes_have_their_line() {
    let read = |keys: &str| {
        let text = format!("[[export]]\nname = \"a\"\ntarget = \"file:/x\"\n{keys}\n");
        let path = std::env::temp_dir().join(format!("hoistway-keys-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = ServeOptions::read(&path);
        std::fs::remove_file(&path).unwrap();
        file.map(|file| file.export[0].clone())
    };
    let flag = ExportSpec::parse("a=file:/x,direct,way=threads,cow,rbps=500,latency=5ms").unwrap();
    let file = "direct = true\nway = \"threads\"\ncow = true\nread-only = false\nrbps = 500\nlatency = \"5ms\"";
    assert_eq!(read(file), Ok(flag));
    for (keys, message) in [
        ("weight = 5\nwight = 1", ":5: unknown key 'wight'; there are name, target"),
        ("weight = \"much\"", ":4: weight wants a whole number"),
        ("group = 5", ":4: group wants text"),
        ("direct = \"yes\"", ":4: direct wants true or false"),
        ("cow = 1", ":4: cow wants true or false"),
        ("rbps = true", ":4: rbps wants a number, or text"),
        ("weight = -1", ":4: "),
    ] {
        let error = read(keys).unwrap_err();
        assert!(error.contains(message), "{keys}: {error}");
    }
}

#[test]
fn options_of_front_ends_are_read_beside_the_others() {
    let read = |text: &str| front_options(text).map(|(given, rest)| (given.len(), rest));
    assert_eq!(read("listen = []\n"), Ok((0, "listen = []\n".into())));
    for option in FRONTS.iter().flat_map(|front| front.options) {
        let (value, other) =
            if option.value.is_empty() { ("true", "\"x\"") } else { ("\"/f\"", "7") };
        let (given, rest) =
            read(&format!("a = 1\n{} = {value} # b\nc = 2\n", option.name)).unwrap();
        assert_eq!((given, rest.lines().count()), (1, 3), "{option:?}");
        assert!(rest.starts_with("a = 1\n ") && rest.ends_with(" # b\nc = 2\n"), "{rest:?}");
        let (at, message) = read(&format!("a = 1\n{} = {other}", option.name)).unwrap_err();
        assert!(at > 6 && message.contains(option.name), "{message}");
    }
}

#[test]
fn flags_go_before_the_file_and_lists_are_joined() {
    let file = "listen = [\"unix:/f\"]\nscheduler = \"bfq\"\ntls-verify-peer = true\nconnections = 7\n\
                stop-limit = \"9s\"\n[[export]]\nname = \"a\"\ntarget = \"ram:1M\"\n";
    let flags = ServeOptions {
        listen: vec!["tcp:1".into()],
        scheduler: Some("kyber".into()),
        allow_plain_tcp: true,
        export: vec![ExportSpec::parse("b=ram:2M").unwrap()],
        fronts: BTreeMap::from([("fuse".to_string(), "/f".to_string())]),
        ..ServeOptions::default()
    };
    let both = flags.over(toml::from_str(file).unwrap());
    assert_eq!(both.listen, ["tcp:1", "unix:/f"]);
    assert_eq!((both.scheduler.as_deref(), both.connections), (Some("kyber"), Some(7)));
    assert!(both.allow_plain_tcp && both.tls_verify_peer && both.tls.is_none());
    assert_eq!((both.stop_limit.as_deref(), both.fronts.len()), (Some("9s"), 1));
    let names: Vec<_> = both.export.iter().map(|e| &e.name[..]).collect();
    assert_eq!(names, ["a", "b"]);
    let none = ServeOptions::default().over(toml::from_str(file).unwrap());
    assert!(none.tls_verify_peer && none.scheduler.as_deref() == Some("bfq"));
}

#[test]
fn every_key_is_in_the_help_once() {
    let names: Vec<_> = export_keys().map(|(name, ..)| name).collect();
    let help = export_help();
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name} twice");
        assert!(help.contains(name), "{name}: {help}");
    }
}

#[test]
fn exports_share_a_device_where_their_keys_are_the_same() {
    let all = [
        "a=ram:1M",
        "b=ram:1M",
        "c=ram:2M",
        "d=ram:1M,cow",
        "e=ram:1M,cow",
        "f=ram:1M,overlay=/x",
        "g=ram:1M,cow,overlay=/x",
        "h=emulate:fixed-100us",
        "i=emulate:fixed-100us,data=/x",
        "j=emulate:fixed-100us,data=/y",
    ];
    let all = all.map(|text| ExportSpec::parse(text).unwrap());
    for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
        let same = one.device_key() == other.device_key();
        assert_eq!(one.shares_device(other), same, "{} and {}", one.name, other.name);
    }
}
